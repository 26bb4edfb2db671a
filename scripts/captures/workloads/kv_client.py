"""Eight clients of a Redis server. Rules:

- Each sends a command and waits for its answer; their commands arrive together.
- Of 100 commands 60 set a key, 30 get one and 10 delete one. Keys are drawn by the square of an even number, so that
  a tenth of them gets about a third of the commands. Values have 100 to 900 bytes, drawn evenly, of letters.
- Half-way a snapshot is asked for (BGSAVE), beside the commands.
"""

import argparse
import random
import socket
import time

CLIENTS = 8


class Connection:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.answers = self.socket.makefile("rb")

    def send(self, *words):
        words = [word.encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))

    def answer(self):
        line = self.answers.readline()
        if not line or line.startswith(b"-"):
            raise SystemExit(f"the server answers {line.decode().strip() or 'nothing'}")
        if line.startswith(b"$") and line != b"$-1\r\n":
            return self.answers.read(int(line[1:]) + 2)
        return line

    def ask(self, *words):
        self.send(*words)
        return self.answer()


def ready(path):
    """A connection to a server that has loaded its files."""
    for _ in range(600):
        try:
            connection = Connection(path)
            connection.ask("PING")
            return connection
        except (SystemExit, OSError):
            time.sleep(0.1)
    raise SystemExit("the server does not come up")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("socket")
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--commands", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--snapshot", action="store_true")
    args = parser.parse_args()
    draw = random.Random(args.seed)
    letters = "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=1 << 16))
    clients = [ready(args.socket), *(Connection(args.socket) for _ in range(CLIENTS - 1))]
    for turn in range(args.commands // CLIENTS):
        if args.snapshot and turn == args.commands // CLIENTS // 2:
            clients[0].ask("BGSAVE", "SCHEDULE")
        for client in clients:
            key, kind = f"key:{int(args.keys * draw.random() ** 2):010d}", draw.random()
            if kind < 0.6:
                begin = draw.randrange(len(letters) - 900)
                client.send("SET", key, letters[begin:begin + draw.randint(100, 900)])
            elif kind < 0.9:
                client.send("GET", key)
            else:
                client.send("DEL", key)
        for client in clients:
            client.answer()
    # A snapshot that is under way is waited for, so that the server may end.
    while b"rdb_bgsave_in_progress:1" in (info := clients[0].ask("INFO", "persistence")) or \
            b"aof_rewrite_in_progress:1" in info:
        time.sleep(0.1)


if __name__ == "__main__":
    main()
