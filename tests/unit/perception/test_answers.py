"""What is said about notes made by hand."""

import numpy as np
import pytest

from core.perception.answers import View, compose, remember_subject
from core.perception.note import Box, Label, Seen
from core.perception.questions import parse
from tests.unit.perception.notes import (
    cat,
    coffee,
    grid,
    note,
    nothing,
    person,
    remembered,
    sign,
)

pytestmark = pytest.mark.unit


def answer(question, *notes, now_s=None, memory=None):
    memory = memory or remembered(*notes)
    now_s = now_s if now_s is not None else list(memory)[-1].time_s
    asked = parse(question)
    view = View(memory, memory.at(now_s), now_s)
    said = " ".join(compose(asked, view))
    remember_subject(asked, view)
    return said


def test_what_is_seen():
    assert answer("What do you see?", cat(1.0)) == (
        "I see a cat, perhaps an Egyptian Mau. The picture is mostly brown."
    )
    assert answer("What is this?", coffee(1.0)) == "It is a cup of coffee, probably an espresso."


def test_what_cannot_be_named_is_said_to_be_unsure():
    said = answer("What is this?", nothing(1.0))
    assert said == "I am not sure what it is; it is mostly red."


def test_a_weak_label_is_not_said():
    weak = note(1.0, kinds=(Label("honeycomb", 0.4),), labels=(Label("honeycomb", 0.4),))
    assert "honeycomb" not in answer("What do you see?", weak)


def test_a_weak_label_that_stays_is_said_as_a_maybe():
    weak = {"kinds": (Label("umbrella", 0.4),), "labels": (Label("umbrella", 0.4),)}
    said = answer("What do you see?", note(1.0, **weak), note(1.5, **weak))
    assert said.startswith("I am not sure, but it may be an umbrella.")


def test_a_weak_object_that_the_label_agrees_with_is_said():
    box = Box(0.2, 0.2, 0.8, 0.8)
    agreed = note(1.0, kinds=(Label("dog", 0.3),), objects=(Seen("dog", 0.4, box),))
    assert answer("What is this?", agreed) == "It is a dog."
    alone = note(1.0, objects=(Seen("dog", 0.4, box),))
    assert "dog" not in answer("What is this?", alone)


def test_a_flower_by_shape_is_said_as_a_guess():
    flower = note(1.0, flower=0.9)
    assert answer("What do you see?", flower).startswith("I think I see a flower.")
    assert answer("What is this?", flower) == "It looks like a flower, but I am not sure."


def test_things_in_hand_leave_the_person_out():
    cup = Seen("cup", 0.7, Box(0.4, 0.5, 0.5, 0.7))
    both = person(1.0)
    both = note(1.0, objects=(*both.objects, cup), faces=both.faces)
    assert answer("What am I holding?", both).startswith("It is a cup.")
    assert answer("What am I holding?", person(1.0)) == (
        "I cannot tell what you are holding. I see one person."
    )


def test_people_are_counted_by_bodies_and_faces():
    assert answer("How many people do you see?", person(1.0)) == "I see one person."
    assert answer("How many people do you see?", person(1.0, 3)) == "I see three people."
    face_only = note(1.0, faces=(Seen("face", 0.9, Box(0.4, 0.2, 0.5, 0.4)),))
    assert answer("How many people do you see?", face_only) == "I see one person."
    back = note(1.0, objects=(Seen("person", 0.8, Box(0.1, 0.1, 0.9, 0.9)),))
    assert answer("How many people?", back) == "I see one person. I do not see the face."
    assert answer("How many people do you see?", cat(1.0)).startswith("I see no people.")


def test_a_part_of_a_person_is_not_another_person():
    parts = note(
        1.0,
        objects=(
            Seen("person", 0.8, Box(0.1, 0.0, 0.9, 1.0)),
            Seen("person", 0.6, Box(0.3, 0.5, 0.6, 0.9)),
        ),
    )
    assert answer("How many people do you see?", parts).startswith("I see one person.")


def test_an_animal_taken_for_a_person_is_not_counted():
    animal = cat(1.0, objects=(Seen("person", 0.6, Box(0.1, 0.0, 0.9, 1.0)),))
    assert answer("How many people do you see?", animal).startswith("I see no people.")


def test_colour_and_light():
    assert answer("What colour is it?", cat(1.0)) == (
        "The cat is mostly brown, with some beige. The whole picture is mostly brown."
    )
    assert answer("Is it bright or dark?", cat(1.0, brightness=0.1)) == (
        "It is very dark: the average brightness is 10 percent."
    )
    assert answer("Is it bright or dark?", cat(1.0, brightness=0.6)).startswith("It is bright")


def test_text():
    assert answer("What does it say?", sign(1.0)) == "It says “OPEN 9-17”."
    assert answer("What does it say?", cat(1.0, text=())) == (
        "I cannot see any text that I can read."
    )


def test_motion_is_measured_between_the_notes_of_the_last_two_seconds():
    here, there = cat(1.0, grid=grid(60)), cat(1.5, grid=grid(60, bright_column=0.05))
    assert answer("Is anything moving?", here, there) == "Yes, something is moving on the left."
    assert answer("Is anything moving?", cat(1.0), cat(1.5)) == "No, nothing is moving."
    assert answer("Is anything moving?", here, there, now_s=9.5) == (
        "No, nothing is moving. The picture has been still for 8 seconds."
    )
    assert answer("Is anything moving?", cat(1.0)).startswith("I cannot tell yet")


def test_a_new_picture_is_not_motion():
    noise = np.random.default_rng(0).integers(0, 255, grid().shape, np.uint8)
    assert answer("Is anything moving?", coffee(1.0), cat(5.0, grid=noise)) == (
        "The whole picture changed, at 5.0 seconds; nothing has moved since."
    )


def test_light_that_is_switched_is_not_motion():
    assert answer("Is anything moving?", cat(1.0, grid=grid(60)), cat(2.0, grid=grid(160))) == (
        "No, nothing is moving."
    )


def test_what_changed():
    assert answer("What changed?", coffee(1.0), coffee(2.0), cat(3.0), cat(4.0)) == (
        "At 3.0 seconds the picture changed: before, I saw a cup of coffee, probably an "
        "espresso; now I see a cat, perhaps an Egyptian Mau."
    )
    assert answer("What changed?", person(1.0), person(2.0, 2)) == (
        "At 2.0 seconds it changed from one person to two people."
    )
    assert answer("What changed?", cat(1.0, brightness=0.6), cat(2.0, brightness=0.1)) == (
        "At 2.0 seconds it became darker: now it is very dark."
    )
    assert answer("What changed?", cat(1.0), cat(2.0)).startswith(
        "Not much has changed since 1.0 seconds."
    )
    assert answer("What changed?", sign(1.0), sign(2.0, ("CLOSED",))) == (
        "At 2.0 seconds the picture changed: before, I saw text that says “OPEN 9-17”; "
        "now I see text that says “CLOSED”."
    )


def test_when_a_thing_was_first_and_last_seen():
    notes = (coffee(0.5), coffee(2.0), cat(3.2), cat(4.0))
    assert answer("When did you first see the cat?", *notes) == (
        "I first saw a cat at 3.2 seconds. I still see it."
    )
    assert answer("When did you first see a mug?", *notes) == (
        "I first saw a cup of coffee at 0.5 seconds. I last saw it at 2.0 seconds."
    )
    assert answer("When did you first see an animal?", *notes).startswith("I first saw a cat")
    assert answer("When did you last see coffee?", *notes).startswith("I last saw a cup of coffee")
    assert answer("When did you first see a dog?", *notes).startswith("I have not seen a dog")
    assert answer("When did you first see a zorblax?", *notes).startswith(
        "I have not seen “zorblax” so far, and I may not be able to recognise it."
    )
    assert answer("When did you first see OPEN?", cat(1.0), sign(2.0)).startswith(
        "I first saw text that says “OPEN 9-17” at 2.0 seconds."
    )


def test_what_was_seen_then_counts_from_the_question():
    notes = (coffee(1.0), cat(4.0))
    assert answer("What did you see 5 seconds ago?", *notes, now_s=8.0) == (
        "5 seconds ago, at 3.0 seconds, I saw a cup of coffee, probably an espresso."
    )
    assert answer("What did you see 2 seconds ago?", *notes, now_s=8.0) == (
        "2 seconds ago, at 6.0 seconds, I saw a cat, perhaps an Egyptian Mau."
    )
    assert answer("What did you see a minute ago?", *notes, now_s=8.0).startswith(
        "I was not watching yet then: my first picture came at 1.0 seconds."
    )


def test_order():
    notes = (coffee(0.5), cat(3.0), sign(6.0))
    either = "The cup of coffee came first, at 0.5 seconds; the cat came after, at 3.0 seconds."
    assert answer("Which came first, the cat or the coffee?", *notes) == either
    assert answer("Did the coffee come before the cat?", *notes) == either
    assert answer("In which order did you see them?", *notes) == (
        "First I saw a cup of coffee at 0.5 seconds, then a cat at 3.0 seconds, "
        "then text that says “OPEN 9-17” at 6.0 seconds."
    )
    assert answer("What came before the cat?", *notes) == (
        "Before the cat I saw a cup of coffee, probably an espresso, at 0.5 seconds."
    )
    assert answer("What came after the cat?", *notes) == (
        "After the cat I saw text that says “OPEN 9-17”, at 6.0 seconds."
    )
    assert answer("What came before the coffee?", *notes).startswith("Nothing: the cup of coffee")
    assert answer("Which came first, the dog or the cat?", *notes).startswith(
        "I have not seen a dog so far. I first saw a cat at 3.0 seconds."
    )


def test_it_is_what_was_last_spoken_of():
    memory = remembered(coffee(0.5), cat(3.0))
    answer("What did you see 3 seconds ago?", memory=memory, now_s=4.0)
    assert answer("When did you first see it?", memory=memory, now_s=5.0).startswith(
        "I first saw a cup of coffee at 0.5 seconds."
    )
    answer("What do you see?", memory=memory, now_s=5.0)
    assert answer("When did you first see it?", memory=memory, now_s=5.0).startswith(
        "I first saw a cat at 3.0 seconds."
    )


def test_whether_a_thing_is_there():
    assert answer("Do you see a cat?", cat(1.0)).startswith("Yes, I see a cat")
    assert answer("Is there a dog?", cat(1.0)).startswith("No, I do not see a dog. I see a cat")


def test_what_is_only_guessed_is_not_confirmed():
    assert answer("Is it a tabby cat?", cat(1.0)) == (
        "I see a cat, perhaps an Egyptian Mau; whether it is a tabby cat, I cannot tell."
    )
    assert answer("Do you see a woman?", person(1.0)) == (
        "I see one person; whether it is a woman, I cannot tell."
    )
    assert answer("Is there a person?", person(1.0)) == "Yes, I see one person."


def test_what_it_is_not_is_said():
    assert "basic vision, not a language model" in answer("What can you do?", cat(1.0))
    said = answer("Write me a poem about love.", cat(1.0))
    assert said.startswith("I see a cat")
    assert "basic vision, not a language model" in said
