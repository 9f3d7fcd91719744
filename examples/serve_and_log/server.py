"""A small inference server: POST /predict with images of digits gets their classes' probabilities.

    python server.py [--port 0]

It knows nothing of taps: they are added from outside while it runs (see load.py).
The body of a request and of its answer is a NumPy array as numpy.save writes it.
"""

import argparse
import contextlib
import io
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

import opstep
from opstep import datasets, layers

DATA, _ = datasets.digits("all", batch=1797)()
STEPS = 200


def train() -> Callable[..., list[np.ndarray]]:
    """Trains for a moment and returns the served function, from images to probabilities."""
    main, startup = opstep.Program("digits"), opstep.Program("startup")
    with opstep.program_guard(main, startup):
        x = layers.data("x", shape=[None, 1, 8, 8])
        label = layers.data("label", shape=[None, 1], dtype="int64")
        features = layers.conv2d(x, filters=16, kernel=3, padding="same", act="relu")
        features = layers.conv2d(features, filters=32, kernel=3, padding="same", act="relu")
        logits = layers.fc(layers.pool2d(features, kernel=2), size=10)
        probabilities = layers.softmax(logits)
        loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
        opstep.optimizer.Adam(learning_rate=0.01).minimize(loss)
    exe = opstep.Executor()
    exe.run(startup)
    images, labels = DATA["x"], DATA["label"]
    random = np.random.default_rng(0)
    for _ in range(STEPS):
        rows = random.integers(0, len(images), 64)
        exe.run(main, feed={"x": images[rows], "label": labels[rows]}, fetch_list=[loss])
    served = main.clone(for_test=True).prune(probabilities, name="served")
    return opstep.compile(served, feeds=["x"], fetches=[probabilities.name])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # TCP would wait with the body of an answer until its head was acknowledged.
    disable_nagle_algorithm = True
    predict: Callable[..., list[np.ndarray]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        images = np.load(io.BytesIO(body), allow_pickle=False)
        (answer,) = self.predict(x=images)
        out = io.BytesIO()
        np.save(out, answer)
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(out.tell()))
        self.end_headers()
        self.wfile.write(out.getvalue())

    def log_message(self, *args: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    args = parser.parse_args()
    Handler.predict = staticmethod(train())
    server = ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
    print(f"serving at 127.0.0.1:{server.server_port}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
