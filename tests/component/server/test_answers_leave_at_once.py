"""A small piece of an answer is not held back until the client's kernel acknowledges the one before, 40 ms
later.
"""

import http.client
import json
import statistics
import time

BODY = json.dumps({"model": "alphabet", "prompt": "a", "max_tokens": 1})
HEADERS = {"content-type": "application/json"}


def test_an_answer_on_a_kept_connection_comes_at_once(server) -> None:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    took_s = []
    for _ in range(15):
        began_s = time.perf_counter()
        connection.request("POST", "/v1/completions", BODY, HEADERS)
        assert json.loads(connection.getresponse().read())["choices"][0]["text"] == "b"
        took_s.append(time.perf_counter() - began_s)
    connection.close()
    assert statistics.median(took_s) < 0.035
