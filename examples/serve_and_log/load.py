"""Asks the server again and again from another process, and reports how fast it answers.

    python load.py ADDRESS [--seconds 5]

Prints the latencies and a digest of all answers, which is the same for the same number of requests.
"""

import argparse
import hashlib
import http.client
import io
import json
import time

import numpy as np

from opstep import datasets

DATA, _ = datasets.digits("all", batch=1797)()
IMAGES = DATA["x"]
BATCH = 16


class Client:
    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=30)

    def ask(self, number: int) -> tuple[bytes, float]:
        """The answer to the request with this number, and how long it took."""
        first = number * BATCH % (len(IMAGES) - BATCH)
        body = io.BytesIO()
        np.save(body, IMAGES[first : first + BATCH])
        start = time.perf_counter()
        self._connection.request("POST", "/predict", body.getvalue())
        answer = self._connection.getresponse().read()
        return answer, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address", help="such as 127.0.0.1:8000")
    parser.add_argument("--seconds", type=float, default=5, help="how long to ask (5)")
    parser.add_argument("--requests", type=int, help="number of requests, instead of --seconds")
    args = parser.parse_args()
    client = Client(args.address)
    digest, times, number = hashlib.sha256(), [], 0
    end = time.monotonic() + args.seconds
    while number < args.requests if args.requests else time.monotonic() < end:
        answer, took = client.ask(number)
        digest.update(answer)
        times.append(took * 1e3)
        number += 1
    told = {
        "requests": number,
        "p50_ms": round(float(np.percentile(times, 50)), 3),
        "p99_ms": round(float(np.percentile(times, 99)), 3),
        "digest": digest.hexdigest()[:16],
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
