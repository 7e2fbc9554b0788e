/** A worker that only ticks: timers of a background tab are slowed down, a worker's are not. */
let timer = 0;
onmessage = ({ data: period_ms }) => {
  clearInterval(timer);
  if (period_ms > 0) timer = setInterval(() => postMessage(0), period_ms);
};
