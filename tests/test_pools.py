"""Tasks on a cluster that is not there: said in a line that names the address and what to do, and soon."""

import contextlib
import socket
import threading
import time

import pytest

from rooflab.sweep import pools
from rooflab.units import InputError, shown

distributed = pytest.importorskip("distributed")
BUSY = 10.0
"""Seconds by which a busy machine may be late; Dask alone would try for 30."""


def complaint(address):
    with pytest.raises(InputError) as refused:
        list(pools.results(abs, [-1, -2], cluster=address))
    text = str(refused.value)
    assert shown(address) in text
    assert "dask scheduler" in text
    assert "--workers" in text
    assert "\n" not in text
    return text


@contextlib.contextmanager
def listener(answer):
    """A port on this machine at which every caller is answered so; None says nothing and keeps the line."""
    callers = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while True:
                try:
                    callers.append(server.accept()[0])
                    if answer is not None:
                        callers[-1].sendall(answer)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
    for caller in callers:
        caller.close()


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("nowhere.invalid:1", "not known"),  # RFC 2606 keeps .invalid free of names
        ("nowhere", "names no port"),
        ("", "names no port"),
        ("tcp://host:", "names no port"),
        ("tcp://host:0", "names no port"),
        ("tcp://host:65536", "names no port"),
        ("tcp://" + "a" * 64 + ":1", "cannot be written"),  # RFC 1035: a label has 63 bytes at most
        ("http://127.0.0.1:80", "scheme"),
    ],
)
def test_addresses_that_lead_nowhere(address, why):
    """Told apart by what is wrong, within 5 s (and what a busy machine adds)."""
    begun = time.monotonic()
    text = complaint(address)
    assert time.monotonic() - begun < pools.ANSWERS_WITHIN + BUSY
    if address.startswith("nowhere.invalid") and why not in text:  # a resolver that is out of reach says so, or nothing
        why = "resolution" if "resolution" in text else "nothing came back"
    assert why in text


def test_a_port_that_refuses():
    """The host is there and nobody listens: said at once, not after the scheduler's own patience."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    begun = time.monotonic()
    assert "refused" in complaint(f"127.0.0.1:{port}")
    assert time.monotonic() - begun < BUSY


def test_a_host_that_never_answers(monkeypatch):
    """Neither a name that no resolver settles nor a connection that is never made holds the caller for longer."""
    monkeypatch.setattr(pools, "ANSWERS_WITHIN", 0.2)
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: time.sleep(10 * BUSY))
    begun = time.monotonic()
    assert "nothing came back in 0.2 s" in complaint("tcp://192.0.2.1:8786")
    assert time.monotonic() - begun < BUSY


@pytest.mark.filterwarnings("ignore")
def test_what_listens_is_no_scheduler(monkeypatch):
    """A web server, whose answer reads as the length of a message beyond any memory, and one that says nothing."""
    monkeypatch.setattr(pools, "PATIENCE", 60.0)
    with listener(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 8) as port:
        assert "something else listens there" in complaint(f"tcp://127.0.0.1:{port}")
    monkeypatch.setattr(pools, "PATIENCE", 1.0)
    with listener(None) as port:
        assert "nothing came back in 1 s" in complaint(f"tcp://127.0.0.1:{port}")


@pytest.mark.filterwarnings("ignore")
def test_clusters_that_cannot_finish(monkeypatch):
    """One without workers, where Dask would wait for one to turn up, and one whose scheduler goes away half-way."""
    monkeypatch.setattr(pools, "PATIENCE", 60.0)
    with distributed.LocalCluster(
        n_workers=0, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        address = cluster.scheduler_address
        with pytest.raises(InputError, match="has no workers; start some with `dask worker tcp"):
            list(pools.results(abs, [-1], cluster=address))
        cluster.scale(1)
        cluster.wait_for_workers(1)
        came = pools.results(time.sleep, [0.01] * 200, cluster=address, cancel=cluster.close)
        assert next(came) is not None
        with pytest.raises(InputError, match=r"the scheduler at '.*' went away"):
            list(came)
