#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the runner itself: that a departure of the server is seen, whatever its kind."""

import pathlib
import re
import socket
import sys
import threading
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(FOLDER.parent))
sys.path.insert(0, str(FOLDER))

import conversation  # noqa: E402
from conversation import Conversation, Mismatch  # noqa: E402
from transcript import LinePattern, TranscriptError, parse, raw_bytes, substitute  # noqa: E402


class FixedServer:
    """Answers a connection with fixed bytes once it has received something, then closes."""

    def __init__(self, answer):
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        connection, _ = self._listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(self._answer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.close()


def _converse(steps, answer, dialect="carillon"):
    [transcript] = parse("test.txt", f"=== name\nabout\n\n{steps}\n")
    with FixedServer(answer) as server:
        talk = Conversation(transcript, dialect, server.address, None)
        talk.run()
        return talk


class ConversationTest(unittest.TestCase):
    def setUp(self):
        self._patience = conversation.PATIENCE_S
        conversation.PATIENCE_S = 0.3

    def tearDown(self):
        conversation.PATIENCE_S = self._patience

    def assert_differs(self, steps, answer, message, dialect="carillon"):
        with self.assertRaises(Mismatch) as caught:
            _converse(steps, answer, dialect)
        self.assertRegex(str(caught.exception), message)

    def test_the_right_answer_agrees(self):
        talk = _converse("A> put 0 0 1 1\nA> x\nA< INSERTED {id:int}\nA is closed",
                         b"INSERTED 7\r\n")
        self.assertEqual(talk.variables, {"id": "7"})

    def test_another_answer_differs(self):
        self.assert_differs("A> x\nA< DELETED", b"NOT_FOUND\r\n", "- DELETED\n.*NOT_FOUND")

    def test_no_answer_differs(self):
        self.assert_differs("A> x\nA< DELETED", b"", "end of stream")
        self.assert_differs("A> x\nA< DELETED", b"DELETED\n", "after \"DELETED")

    def test_a_prefix_is_not_enough(self):
        self.assert_differs("A> x\nA< DELETED", b"DELETED \r\n", "DELETED")

    def test_something_unexpected_at_the_end_differs(self):
        self.assert_differs("A> x\nA< DELETED", b"DELETED\r\nDELETED\r\n", "unexpected bytes")

    def test_talk_instead_of_silence_differs(self):
        self.assert_differs("A> x\nA is silent 0.2", b"TIMED_OUT\r\n", "silence.*\n.*TIMED_OUT")

    def test_a_close_instead_of_silence_differs(self):
        self.assert_differs("A> x\nA is silent 0.2", b"", "end of stream")

    def test_an_answer_too_early_or_too_late_differs(self):
        self.assert_differs("mark\nA> x\nA<[0.2..1] TIMED_OUT", b"TIMED_OUT\r\n", "early")
        self.assert_differs("mark\nA> x\nwait 0.1\nA<[..0.0] TIMED_OUT", b"TIMED_OUT\r\n", "late")

    def test_raw_bytes_are_compared_to_the_byte(self):
        _converse('A> x\nA<< "a\\x00\\r\\n"', b"a\0\r\n")
        self.assert_differs('A> x\nA<< "aab"', b"aac", "byte 2 of 3")

    def test_a_yaml_block_is_compared_line_by_line(self):
        steps = "A> stats\nA<yaml\n| ---\n| a: {:int}\n| b: x"
        _converse(steps, b"OK 14\r\n---\na: 1\nb: x\n\r\n")
        self.assert_differs(steps, b"OK 14\r\n---\nb: x\na: 1\n\r\n", r"\+b: x")
        self.assert_differs(steps, b"OK 9\r\n---\na: 1\n\r\n", "-b: x")
        self.assert_differs(steps, b"OK 19\r\n---\na: 1\nb: x\nc: 2\n\r\n", r"\+c: 2")
        self.assert_differs(steps, b"NOT_FOUND\r\n", "NOT_FOUND")

    def test_the_byte_count_of_yaml_leaves_out_the_crlf(self):
        self.assert_differs("A> stats\nA<yaml\n| ---\n| a: 1", b"OK 11\r\n---\na: 1\n\r\n",
                            "not followed by 11")

    def test_dots_in_a_yaml_block_stand_for_any_lines(self):
        steps = "A> stats\nA<yaml\n| ---\n| ...\n| b: 2"
        _converse(steps, b"OK 14\r\n---\na: 1\nb: 2\n\r\n")
        self.assert_differs(steps, b"OK 14\r\n---\na: 1\nb: 3\n\r\n", "b: 2")
        self.assert_differs(steps, b"OK 14\r\n---\nb: 2\na: 1\n\r\n", "a: 1")

    def test_a_section_holds_for_its_dialect_only(self):
        steps = "A> x\n[beanstalkd]\nA< b\n[carillon]\nA< c\n[both]\nA< d"
        _converse(steps, b"b\r\nd\r\n", "beanstalkd")
        _converse(steps, b"c\r\nd\r\n", "carillon")
        self.assert_differs(steps, b"b\r\nd\r\n", "- c", "carillon")


class PatternTest(unittest.TestCase):
    def test_placeholders(self):
        known = {"id": "17"}
        self.assertEqual(LinePattern("FOUND {id} {n:int}", known).match("FOUND 17 3"), {"n": "3"})
        self.assertIsNone(LinePattern("FOUND {id} {n:int}", known).match("FOUND 18 3"))
        self.assertIsNone(LinePattern("{:5..7}", known).match("8"))
        self.assertEqual(LinePattern("{:5..7}", known).match("7"), {})
        self.assertIsNone(LinePattern("{:>id}", known).match("17"))
        self.assertEqual(LinePattern("{:>id}", known).match("18"), {})
        self.assertEqual(LinePattern("{:/[a-f]{2}/}!", known).match("ab!"), {})
        self.assertEqual(LinePattern("use {3*ab}", known).match("use ababab"), {})
        self.assertIsNone(LinePattern("a.c", known).match("abc"))

    def test_an_unknown_name_is_an_error(self):
        with self.assertRaises(KeyError):
            substitute("delete {id}", {})

    def test_raw_bytes(self):
        self.assertEqual(raw_bytes(r'"a\x00\r\n" "b" * 3 "{id}"', {"id": "9"}), b"a\0\r\nbbb9")
        with self.assertRaises(ValueError):
            raw_bytes("a", {})


class FileTest(unittest.TestCase):
    def test_what_is_not_grammar_is_refused(self):
        for text in ("A> x\n", "=== n\nabout\n\nwhat is this\n", "=== n\nabout\n\n| a\n",
                     "=== n\n\nA> x\n", "=== n\nabout\n", "=== n\nabout\nserver: mine\n\nA> x\n"):
            with self.subTest(text=text), self.assertRaises(TranscriptError):
                parse("test.txt", text)

    def test_transcripts_that_share_a_server_share_no_tube(self):
        users = {}
        for path in sorted(FOLDER.glob("*.txt")):
            for transcript in parse(path.name, path.read_text(encoding="utf-8")):
                if transcript.server != "shared":
                    continue
                sent = [step.text for step in transcript.steps if step.verb == "send"]
                tubes = {line.split()[1] for line in sent
                         if re.fullmatch(r"(use|watch) [\w-]+", line)} - {"default"}
                for tube in tubes:
                    self.assertEqual(users.setdefault(tube, transcript.name), transcript.name,
                                     f"the tube {tube} is used by two transcripts")
                if any("INSERTED" in step.source for step in transcript.steps):
                    self.assertTrue(any(line.startswith("use ") for line in sent),
                                    f"{transcript.name} puts into default")


if __name__ == "__main__":
    unittest.main()
