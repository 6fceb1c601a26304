"""A server on this machine that counts who comes."""

import socket
import threading

ANSWER = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Listener:
    """Listens on this machine, and hangs up, or answers that there is nothing.

    Attributes:
        asked: How many connections it got.
        answers: Whether it answers.
    """

    def __init__(self) -> None:
        self.asked, self.answers = 0, False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.asked += 1
            with connection:
                if self.answers:
                    connection.recv(65_536)
                    connection.sendall(ANSWER)

    def close(self) -> None:
        self._listener.close()
