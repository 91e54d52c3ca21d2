"""Works on a node with redis-py and checks every answer against what it wrote itself.

    redis_py_program.py cluster|plain HOST PORT 2|3

It reads lines: "count" is answered with the number of checked answers so far, "stop" with a last look at every key
and a summary. The first error or wrong answer ends it with a traceback.
"""

import json
import sys
import threading
import time
import warnings

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.retry import Retry

# What this program's older and newer redis-py call differently is not its subject.
warnings.simplefilter("ignore")

KEYS_OF_A_KIND = 40
FLEETING_MS = 400
# A reply that takes longer than this after a deadline, or before it, says nothing about the deadline.
CLOCK_MARGIN_S = 0.2


def connect(kind, host, port, protocol):
    """A client that hands every error to its caller, at once."""
    options = {
        "host": host,
        "port": port,
        "protocol": protocol,
        "decode_responses": True,
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": 30,
    }
    if kind == "plain":
        return redis.Redis(**options)
    return RedisCluster(cluster_error_retry_attempts=0, **options)


class Work:
    """Keys of one form, used in every way that this program knows; `name` makes the key of a kind and a number."""

    def __init__(self, client, name):
        self.client = client
        self.name = name
        self.values = {}
        self.counts = {}
        self.answers = 0
        self.increments = 0
        self.expired = 0
        self.turn = 0
        # Keys whose deadline is under way, until when they are certainly there, and when they have to be gone.
        self.fleeting_keys = [name("fleeting", number) for number in range(KEYS_OF_A_KIND)]
        self.here_until = None
        self.gone_by = None

    def check(self, is_right, what, *found):
        if not is_right:
            raise AssertionError(f"{what}: {found!r}")
        self.answers += 1

    def round(self):
        for number in range(KEYS_OF_A_KIND):
            self.turn += 1
            self.count(number)
            self.string(number)
            self.append(number)
            self.lasting(number)
            self.remove(number)
        self.fleeting()
        self.pipeline()

    def count(self, number):
        key = self.name("counter", number)
        expected = self.counts.get(key, 0) + 1
        answer = self.client.incr(key)
        self.counts[key] = expected
        self.increments += 1
        self.check(answer == expected, key, answer, expected)

    def string(self, number):
        key = self.name("string", number)
        value = f"value {self.turn} of {key}"
        old = self.client.getset(key, value)
        self.check(old == self.values.get(key), key, old)
        self.values[key] = value
        found = self.client.get(key)
        self.check(found == value, key, found, value)

    def append(self, number):
        key = self.name("appended", number)
        value = self.values.get(key, "") + "ab"
        length = self.client.append(key, "ab")
        self.check(length == len(value), key, length, len(value))
        self.values[key] = value

    def lasting(self, number):
        """A deadline far away stays where it was set."""
        key = self.name("lasting", number)
        if self.turn <= KEYS_OF_A_KIND:
            self.check(self.client.set(key, "here"), key)
            self.check(self.client.expire(key, 1000), key)
        left = self.client.pttl(key)
        self.check(800_000 <= left <= 1_000_000, key, left)
        self.check(self.client.get(key) == "here", key)

    def remove(self, number):
        key = self.name("removed", number)
        self.check(self.client.set(key, "x", nx=True), key, "it was there before it was made")
        self.check(self.client.set(key, "y", nx=True) is None, key)
        self.check(self.client.delete(key) == 1, key)
        self.check(self.client.delete(key) == 0, key)
        self.check(self.client.get(key) is None, key)

    def fleeting(self):
        """A deadline that passes takes its key along, wherever the key is by then."""
        if self.gone_by is None:
            begun = time.monotonic()
            for key in self.fleeting_keys:
                self.check(self.client.set(key, "here", px=FLEETING_MS), key)
            self.here_until = begun + FLEETING_MS / 1000 - CLOCK_MARGIN_S
            self.gone_by = time.monotonic() + FLEETING_MS / 1000 + CLOCK_MARGIN_S
        elif time.monotonic() >= self.gone_by:
            self.look_for_fleeting()
        else:
            for key in self.fleeting_keys:
                found = self.client.get(key)
                if time.monotonic() < self.here_until:
                    self.check(found == "here", key, found)

    def look_for_fleeting(self):
        for key in self.fleeting_keys:
            found = self.client.get(key)
            self.check(found is None, key, found)
            self.check(self.client.ttl(key) == -2, key)
            self.expired += 1
        self.gone_by = None

    def pipeline(self):
        keys = [self.name("counter", number) for number in range(KEYS_OF_A_KIND)]
        pipe = self.client.pipeline() if isinstance(self.client, RedisCluster) else self.client.pipeline(False)
        for key in keys:
            pipe.incr(key)
        for key, answer in zip(keys, pipe.execute()):
            self.counts[key] += 1
            self.increments += 1
            self.check(answer == self.counts[key], key, answer, self.counts[key])

    def last_look(self):
        if self.gone_by is not None:
            time.sleep(max(0, self.gone_by - time.monotonic()))
            self.look_for_fleeting()
        for key, value in self.values.items():
            found = self.client.get(key)
            self.check(found == value, key, found, value)
        for key, count in self.counts.items():
            found = self.client.get(key)
            self.check(found == str(count), key, found, count)


class PlainWork(Work):
    """A client that knows nothing of clusters may name keys of any slots in one command."""

    def transaction(self):
        """redis-py's default pipeline is a transaction."""
        key, count = self.name("transaction", 0), self.name("transaction", 0) + ":count"
        pipe = self.client.pipeline()
        pipe.set(key, "whole").incr(count).get(key).delete(key, count)
        self.check(pipe.execute() == [True, 1, "whole", 2], "a transaction")
        pipe = self.client.pipeline()
        pipe.set(key, "half").execute_command("NOSUCH")
        try:
            pipe.execute()
        except redis.ResponseError as error:
            self.check("unknown command" in str(error), "the error says why", error)
        else:
            raise AssertionError("an unknown command was queued")
        self.check(self.client.exists(key, count) == 0, "nothing of it has happened")

        def increment(pipe):
            read = int(pipe.get(count) or 0)
            pipe.multi()
            pipe.set(count, read + 1)

        for _ in range(2):
            self.check(self.client.transaction(increment, count) == [True], "WATCH")
        self.check(self.client.getdel(count) == "2", "two increments")
        pipe = self.client.pipeline()
        pipe.watch(count)
        self.client.set(count, "other")
        pipe.multi()
        pipe.set(count, "own")
        try:
            pipe.execute()
        except redis.WatchError:
            self.check(self.client.getdel(count) == "other", "the other's value")
        else:
            raise AssertionError("a watched key was changed unseen")

    def round(self):
        super().round()
        self.transaction()
        keys = [self.name("many", number) for number in range(KEYS_OF_A_KIND)]
        values = {key: f"{key} {self.turn}" for key in keys}
        self.check(self.client.mset(values), "MSET")
        self.check(self.client.mget(keys) == list(values.values()), "MGET")
        self.check(self.client.exists(*keys) == len(keys), "EXISTS")
        self.check(self.client.touch(*keys) == len(keys), "TOUCH")
        self.check(self.client.msetnx({"never": "x", keys[0]: "x"}) is False, "MSETNX")
        self.check(self.client.delete(*keys, "never") == len(keys), "DEL")
        self.check(self.client.mget(keys) == [None] * len(keys), "MGET of what is gone")


class TagWork(Work):
    """A cluster client may name several keys of one hash tag in one command."""

    def round(self):
        super().round()
        keys = [self.name("many", number) for number in range(KEYS_OF_A_KIND)]
        values = {key: f"{key} {self.turn}" for key in keys}
        self.check(self.client.mset(values), "MSET")
        self.check(self.client.mget(keys) == list(values.values()), "MGET")
        self.check(self.client.exists(*keys) == len(keys), "EXISTS")
        self.check(self.client.touch(*keys) == len(keys), "TOUCH")
        pipe = self.client.pipeline()
        for key in keys:
            pipe.append(key, "!")
        pipe.get(keys[0])
        pipe.exists(*keys)
        lengths = [len(value) + 1 for value in values.values()]
        self.check(pipe.execute() == [*lengths, values[keys[0]] + "!", len(keys)], "a pipeline")
        self.check(self.client.unlink(*keys[:5]) == 5, "UNLINK")
        self.check(self.client.delete(*keys) == len(keys) - 5, "DEL")
        self.check(self.client.mget(keys) == [None] * len(keys), "MGET of what is gone")


def main():
    kind, host, port, protocol = sys.argv[1:]

    client = connect(kind, host, int(port), int(protocol))
    if kind == "plain":
        works = [PlainWork(client, lambda kind, number: f"py:{kind}:{number}")]
    else:
        works = [
            Work(client, lambda kind, number: f"py:{kind}:{number}"),
            # All keys in the slot of "foo", 12182, which is split in the end.
            TagWork(client, lambda kind, number: f"{{foo}}:{kind}:{number}"),
        ]
    stop = threading.Event()
    failures = []

    def run(work):
        try:
            while not stop.is_set():
                work.round()
            work.last_look()
        except BaseException as failure:
            failures.append(failure)
            raise

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for line in sys.stdin:
        if line.strip() == "stop":
            break
        if failures:
            sys.exit(1)
        print(sum(work.answers for work in works), flush=True)
    stop.set()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit(1)
    summary = {
        "answers": sum(work.answers for work in works),
        "increments": sum(work.increments for work in works),
        "expired": sum(work.expired for work in works),
        "counted": sum(sum(work.counts.values()) for work in works),
    }
    print(json.dumps(summary), flush=True)


main()
