"""`python -m loopwright.rpc server` and `python -m loopwright.rpc tracker`."""

from __future__ import annotations

import argparse
import signal
import sys

from .server import Server
from .tracker import Tracker


def main() -> None:
    """Serve until interrupted or stopped by a request. The secret is LOOPWRIGHT_RPC_SECRET."""
    parser = argparse.ArgumentParser("loopwright.rpc", description=main.__doc__)
    parser.add_argument("role", choices=["server", "tracker"])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9090)
    parser.add_argument("--key", default="", help="the server's name at the tracker")
    parser.add_argument("--tracker", help="host:port of a tracker that hands the server out")
    parser.add_argument("--tls", nargs="+", help="files: certificate, key, clients' authority")
    options = parser.parse_args()
    end = options.port + 1
    if options.role == "tracker":
        serving: Server | Tracker = Tracker(options.host, options.port, end, tls=options.tls)
    else:
        host, _, port = (options.tracker or "").rpartition(":")
        tracker = (host, int(port)) if options.tracker else None
        serving = Server(
            options.host, options.port, end, tracker_addr=tracker, key=options.key, tls=options.tls
        )
    print(f"{options.role} on {serving.host}:{serving.port}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        serving.wait()
    except KeyboardInterrupt:
        pass
    finally:
        serving.terminate()


if __name__ == "__main__":
    main()
