"""A mix of transactions like TPC-C's on SQLite. Rules:

- Tables, keys and the mix are TPC-C's: of 100 transactions 45 new orders, 43 payments, 4 order states, 4 deliveries
  and 4 stock levels. Customers and items are drawn by TPC-C's NURand. One new order in a hundred is rolled back.
- Smaller than TPC-C: a warehouse has 10 districts of 300 customers and a stock of 10,000 items, so that several fit
  where one of TPC-C's does. No terminals, no keying, no thinking.
- SQLite: write-ahead log, synchronous=full, a page cache of 2 MiB, all else as it comes.
"""

import argparse
import random
import sqlite3

DISTRICTS, CUSTOMERS, ITEMS = 10, 300, 10000

SCHEMA = """
CREATE TABLE warehouse(w INTEGER PRIMARY KEY, name TEXT, tax REAL, ytd REAL);
CREATE TABLE district(w INT, d INT, name TEXT, tax REAL, ytd REAL, next_o INT, PRIMARY KEY(w, d)) WITHOUT ROWID;
CREATE TABLE customer(w INT, d INT, c INT, last TEXT, first TEXT, credit TEXT, discount REAL, balance REAL, ytd REAL,
    payments INT, deliveries INT, data TEXT, PRIMARY KEY(w, d, c)) WITHOUT ROWID;
CREATE INDEX customer_last ON customer(w, d, last, first);
CREATE TABLE history(c INT, cd INT, cw INT, d INT, w INT, date TEXT, amount REAL, data TEXT);
CREATE TABLE item(i INTEGER PRIMARY KEY, name TEXT, price REAL, data TEXT);
CREATE TABLE stock(w INT, i INT, quantity INT, dist TEXT, ytd INT, orders INT, remote INT, data TEXT, PRIMARY KEY(w, i))
    WITHOUT ROWID;
CREATE TABLE orders(w INT, d INT, o INT, c INT, entered TEXT, carrier INT, lines INT, PRIMARY KEY(w, d, o))
    WITHOUT ROWID;
CREATE INDEX orders_customer ON orders(w, d, c, o);
CREATE TABLE new_order(w INT, d INT, o INT, PRIMARY KEY(w, d, o)) WITHOUT ROWID;
CREATE TABLE order_line(w INT, d INT, o INT, number INT, i INT, supply INT, delivered TEXT, quantity INT, amount REAL,
    dist TEXT, PRIMARY KEY(w, d, o, number)) WITHOUT ROWID;
"""

SYLLABLES = "BAR OUGHT ABLE PRI PRES ESE ANTI CALLY ATION EING".split()


class Bench:
    def __init__(self, path, warehouses, seed):
        self.random = random.Random(seed)
        self.warehouses = warehouses
        self.db = sqlite3.connect(path, isolation_level=None)
        for setting in ("journal_mode = wal", "synchronous = full", "cache_size = -2048"):
            self.db.execute(f"PRAGMA {setting}").fetchall()
        self.clock = 0

    def text(self, least, most):
        return "".join(self.random.choices("abcdefghijklmnopqrstuvwxyz", k=self.random.randint(least, most)))

    def last_name(self, number):
        return SYLLABLES[number // 100] + SYLLABLES[number // 10 % 10] + SYLLABLES[number % 10]

    def nurand(self, spread, least, most):
        """TPC-C, clause 2.1.6: what is drawn is neither even nor the same few."""
        drawn = self.random.randint(0, spread) | self.random.randint(least, most)
        return (drawn + spread // 3) % (most - least + 1) + least

    def customer(self):
        return self.nurand(255, 1, CUSTOMERS)

    def item(self):
        return self.nurand(8191, 1, ITEMS)

    def now(self):
        """Times only order the rows, so they are counted."""
        self.clock += 1
        return f"{self.clock:012d}"

    def load(self):
        db, draw = self.db, self.random
        db.executescript(SCHEMA)
        db.execute("BEGIN")
        db.executemany("INSERT INTO item VALUES(?, ?, ?, ?)",
                       ((i, self.text(14, 24), draw.uniform(1, 100), self.text(26, 50)) for i in range(1, ITEMS + 1)))
        db.execute("COMMIT")
        for w in range(1, self.warehouses + 1):
            db.execute("BEGIN")
            db.execute("INSERT INTO warehouse VALUES(?, ?, ?, 300000)", (w, self.text(6, 10), draw.uniform(0, 0.2)))
            db.executemany("INSERT INTO stock VALUES(?, ?, ?, ?, 0, 0, 0, ?)",
                           ((w, i, draw.randint(10, 100), self.text(240, 240), self.text(26, 50))
                            for i in range(1, ITEMS + 1)))
            for d in range(1, DISTRICTS + 1):
                db.execute("INSERT INTO district VALUES(?, ?, ?, ?, 30000, ?)",
                           (w, d, self.text(6, 10), draw.uniform(0, 0.2), CUSTOMERS + 1))
                db.executemany("INSERT INTO customer VALUES(?, ?, ?, ?, ?, ?, ?, -10, 10, 1, 0, ?)",
                               ((w, d, c, self.last_name(self.nurand(255, 0, 999)), self.text(8, 16),
                                 "BC" if draw.random() < 0.1 else "GC", draw.uniform(0, 0.5), self.text(300, 500))
                                for c in range(1, CUSTOMERS + 1)))
                for o, c in enumerate(draw.sample(range(1, CUSTOMERS + 1), CUSTOMERS), 1):
                    self.insert_order(w, d, o, c, [(self.item(), w, 5, 0.0) for _ in range(draw.randint(5, 15))])
            db.execute("COMMIT")

    def insert_order(self, w, d, o, c, lines):
        self.db.execute("INSERT INTO orders VALUES(?, ?, ?, ?, ?, NULL, ?)", (w, d, o, c, self.now(), len(lines)))
        self.db.execute("INSERT INTO new_order VALUES(?, ?, ?)", (w, d, o))
        self.db.executemany("INSERT INTO order_line VALUES(?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)",
                            ((w, d, o, number, i, supply, quantity, amount, self.text(24, 24))
                             for number, (i, supply, quantity, amount) in enumerate(lines, 1)))

    def place(self):
        return self.random.randint(1, self.warehouses), self.random.randint(1, DISTRICTS)

    def new_order(self):
        w, d = self.place()
        c, db = self.customer(), self.db
        db.execute("BEGIN IMMEDIATE")
        db.execute("SELECT tax FROM warehouse WHERE w = ?", (w,)).fetchone()
        (o,) = db.execute("SELECT next_o FROM district WHERE w = ? AND d = ?", (w, d)).fetchone()
        db.execute("UPDATE district SET next_o = next_o + 1 WHERE w = ? AND d = ?", (w, d))
        db.execute("SELECT discount, last, credit FROM customer WHERE w = ? AND d = ? AND c = ?", (w, d, c)).fetchone()
        lines = []
        for _ in range(self.random.randint(5, 15)):
            i, quantity = self.item(), self.random.randint(1, 10)
            supply = self.random.randint(1, self.warehouses) if self.random.random() < 0.01 else w
            (price,) = db.execute("SELECT price FROM item WHERE i = ?", (i,)).fetchone()
            (there,) = db.execute("SELECT quantity FROM stock WHERE w = ? AND i = ?", (supply, i)).fetchone()
            left = there - quantity if there >= quantity + 10 else there - quantity + 91
            db.execute("UPDATE stock SET quantity = ?, ytd = ytd + ?, orders = orders + 1, remote = remote + ? "
                       "WHERE w = ? AND i = ?", (left, quantity, int(supply != w), supply, i))
            lines.append((i, supply, quantity, price * quantity))
        self.insert_order(w, d, o, c, lines)
        db.execute("ROLLBACK" if self.random.random() < 0.01 else "COMMIT")

    def somebody(self, w, d):
        """A customer, six times of ten by the last name: then the middle one of those who bear it."""
        if self.random.random() < 0.6:
            name = self.last_name(self.nurand(255, 0, 999))
            found = self.db.execute("SELECT c FROM customer WHERE w = ? AND d = ? AND last = ? ORDER BY first",
                                    (w, d, name)).fetchall()
            if found:
                return found[len(found) // 2][0]
        return self.customer()

    def payment(self):
        w, d = self.place()
        cw, cd = (w, d) if self.random.random() < 0.85 else self.place()
        amount, db = self.random.uniform(1, 5000), self.db
        db.execute("BEGIN IMMEDIATE")
        c = self.somebody(cw, cd)
        db.execute("UPDATE warehouse SET ytd = ytd + ? WHERE w = ?", (amount, w))
        db.execute("UPDATE district SET ytd = ytd + ? WHERE w = ? AND d = ?", (amount, w, d))
        db.execute("UPDATE customer SET balance = balance - ?, ytd = ytd + ?, payments = payments + 1, "
                   "data = CASE credit WHEN 'BC' THEN substr(? || data, 1, 500) ELSE data END "
                   "WHERE w = ? AND d = ? AND c = ?",
                   (amount, amount, f"{c} {cd} {cw} {d} {w} {amount:.2f} ", cw, cd, c))
        db.execute("INSERT INTO history VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
                   (c, cd, cw, d, w, self.now(), amount, self.text(12, 24)))
        db.execute("COMMIT")

    def order_state(self):
        w, d = self.place()
        c = self.somebody(w, d)
        self.db.execute("SELECT balance, first, last FROM customer WHERE w = ? AND d = ? AND c = ?",
                        (w, d, c)).fetchone()
        last = self.db.execute("SELECT max(o) FROM orders WHERE w = ? AND d = ? AND c = ?", (w, d, c)).fetchone()[0]
        self.db.execute("SELECT * FROM order_line WHERE w = ? AND d = ? AND o = ?", (w, d, last)).fetchall()

    def delivery(self):
        w, db = self.random.randint(1, self.warehouses), self.db
        carrier = self.random.randint(1, 10)
        db.execute("BEGIN IMMEDIATE")
        for d in range(1, DISTRICTS + 1):
            (o,) = db.execute("SELECT min(o) FROM new_order WHERE w = ? AND d = ?", (w, d)).fetchone()
            if o is None:
                continue
            db.execute("DELETE FROM new_order WHERE w = ? AND d = ? AND o = ?", (w, d, o))
            (c,) = db.execute("SELECT c FROM orders WHERE w = ? AND d = ? AND o = ?", (w, d, o)).fetchone()
            db.execute("UPDATE orders SET carrier = ? WHERE w = ? AND d = ? AND o = ?", (carrier, w, d, o))
            db.execute("UPDATE order_line SET delivered = ? WHERE w = ? AND d = ? AND o = ?", (self.now(), w, d, o))
            (amount,) = db.execute("SELECT sum(amount) FROM order_line WHERE w = ? AND d = ? AND o = ?",
                                   (w, d, o)).fetchone()
            db.execute("UPDATE customer SET balance = balance + ?, deliveries = deliveries + 1 "
                       "WHERE w = ? AND d = ? AND c = ?", (amount, w, d, c))
        db.execute("COMMIT")

    def stock_level(self):
        w, d = self.place()
        (o,) = self.db.execute("SELECT next_o FROM district WHERE w = ? AND d = ?", (w, d)).fetchone()
        self.db.execute("SELECT count(DISTINCT stock.i) FROM order_line JOIN stock ON stock.w = order_line.w AND "
                        "stock.i = order_line.i WHERE order_line.w = ? AND order_line.d = ? AND order_line.o >= ? AND "
                        "stock.quantity < ?", (w, d, o - 20, self.random.randint(10, 20))).fetchone()

    def run(self, transactions):
        kinds = [self.new_order, self.payment, self.order_state, self.delivery, self.stock_level]
        for _ in range(transactions):
            self.random.choices(kinds, weights=[45, 43, 4, 4, 4])[0]()
        self.db.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database")
    parser.add_argument("--warehouses", type=int, required=True)
    parser.add_argument("--transactions", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args()
    bench = Bench(args.database, args.warehouses, args.seed)
    bench.load()
    bench.run(args.transactions)
