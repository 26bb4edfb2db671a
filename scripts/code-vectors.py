#!/usr/bin/env python3
"""Vectors for the tests of the error-correcting codes, from implementations that are not ours.

BCH: `bchlib`, which is the BCH library of the Linux kernel, and `galois`, which computes with polynomials over finite
fields. Both have to agree before a line is written. LDPC: the parity-check matrix is read from the alist file that
`ftlab reliability --alist` writes; parities come from Gaussian elimination with `numpy`, corrections from the min-sum
decoder of the package `ldpc`.

    code-vectors.py FTLAB > crates/reliability/data/vectors.txt         (make vectors)
    code-vectors.py FTLAB --quick                                       small codes only, in seconds

FTLAB is the built command. Data are random bytes from splitmix64, so that a vector is a seed and a parity:

    bch M T DATA_BYTES SEED PARITY
    bch-read M T DATA_BYTES SEED ERRORS COUNT|-     bits ERRORS (from the top of the first byte, parity after data) are
                                                    flipped; the decoder corrects COUNT bits, or none (-)
    ldpc DATA_BYTES PARITY_BYTES SEED PARITY
    ldpc-read DATA_BYTES PARITY_BYTES SEED ERRORS   bits ERRORS (from the lowest of the first byte) are flipped; the
                                                    decoder corrects them all
"""

import subprocess
import sys
import tempfile

import bchlib
import galois
import numpy as np
from ldpc import BpDecoder

MASK = (1 << 64) - 1
# Primitive polynomials of the kernel's library.
POLYNOMIALS = {5: 0x25, 6: 0x43, 7: 0x83, 8: 0x11D, 9: 0x211, 10: 0x409, 11: 0x805, 12: 0x1053, 13: 0x201B, 14: 0x402B, 15: 0x8003}


class Random:
    """splitmix64, as in the test that reads the vectors."""

    def __init__(self, seed):
        self.state = seed

    def bits(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def data(self, count):
        return bytes(self.bits() & 0xFF for _ in range(count))

    def positions(self, count, bound):
        chosen = []
        while len(chosen) < count:
            position = self.bits() % bound
            if position not in chosen:
                chosen.append(position)
        return chosen


def galois_code(m, t):
    """The code of full length; shorter ones are the same with zeros in front."""
    field = galois.GF(2**m, irreducible_poly=galois.Poly.Int(POLYNOMIALS[m]), primitive_element="x")
    return galois.BCH(2**m - 1, d=2 * t + 1, extension_field=field, alpha=field.primitive_element)


def bch_vectors(m, t, data_bytes, with_galois):
    kernel = bchlib.BCH(t, m=m)
    assert kernel.prim_poly == POLYNOMIALS[m], hex(kernel.prim_poly)
    algebra = galois_code(m, t) if with_galois else None
    for seed in (1, 2):
        data = Random(seed).data(data_bytes)
        parity = bytes(kernel.encode(data))
        if algebra is not None:
            bits = galois.GF2(np.unpackbits(np.frombuffer(data, dtype=np.uint8)))
            other = np.packbits(np.array(algebra.encode(bits, output="parity"))).tobytes()
            assert other == parity, f"bchlib and galois differ: m={m} t={t}"
        yield f"bch {m} {t} {data_bytes} {seed} {parity.hex()}"
    parity = bytes(kernel.encode(Random(1).data(data_bytes)))
    for seed, count in enumerate([1, 2, 3, t - 1, t, t, t + 1, t + 1, t + 2, 2 * t + 1]):
        bound = 8 * data_bytes + kernel.ecc_bits
        if not 0 < count <= bound:
            continue
        errors = Random(100 + seed).positions(count, bound)
        read = bytearray(Random(1).data(data_bytes) + parity)
        for position in errors:
            read[position // 8] ^= 0x80 >> (position % 8)
        # Negative where the kernel gives up.
        corrected = kernel.decode(bytes(read[:data_bytes]), bytes(read[data_bytes:]))
        told = str(corrected) if corrected >= 0 else "-"
        yield f"bch-read {m} {t} {data_bytes} 1 {','.join(map(str, errors))} {told}"


def read_alist(path):
    """A matrix from MacKay's format, by its lists of columns."""
    with open(path) as file:
        lines = [list(map(int, line.split())) for line in file]
    columns, rows = lines[0]
    matrix = np.zeros((rows, columns), dtype=np.uint8)
    for column in range(columns):
        for row in lines[4 + column]:
            if row:
                matrix[row - 1, column] = 1
    by_rows = np.zeros_like(matrix)
    for row in range(rows):
        for column in lines[4 + columns + row]:
            if column:
                by_rows[row, column - 1] = 1
    assert (matrix == by_rows).all(), "the two halves of the file differ"
    return matrix


def solve(matrix, right):
    """x with matrix x = right over GF(2), the matrix square and regular."""
    work = np.concatenate([matrix, right[:, None]], axis=1).astype(bool)
    for column in range(matrix.shape[1]):
        pivot = column + int(np.argmax(work[column:, column]))
        assert work[pivot, column], "the parity is not determined"
        work[[column, pivot]] = work[[pivot, column]]
        others = work[:, column].copy()
        others[column] = False
        work[others] ^= work[column]
    return work[:, -1].astype(np.uint8)


def ldpc_vectors(ftlab, data_bytes, parity_bytes, most_errors):
    with tempfile.NamedTemporaryFile(suffix=".alist") as file:
        code = f"ldpc:parity={parity_bytes},data={data_bytes}"
        subprocess.run([ftlab, "reliability", "--code", code, "--alist", file.name], check=True, stdout=subprocess.DEVNULL)
        matrix = read_alist(file.name)
    assert matrix.shape == (8 * parity_bytes, 8 * (data_bytes + parity_bytes)), matrix.shape
    for seed in (1, 2):
        bits = np.unpackbits(np.frombuffer(Random(seed).data(data_bytes), dtype=np.uint8), bitorder="little")
        left, right = matrix[:, : 8 * data_bytes], matrix[:, 8 * data_bytes :]
        parity = solve(right, (left.astype(np.int64) @ bits % 2).astype(np.uint8))
        assert not ((matrix.astype(np.int64) @ np.concatenate([bits, parity])) % 2).any()
        yield f"ldpc {data_bytes} {parity_bytes} {seed} {np.packbits(parity, bitorder='little').tobytes().hex()}"
    decoder = BpDecoder(matrix, error_rate=0.003, max_iter=50, bp_method="minimum_sum", ms_scaling_factor=0.75)
    for seed, count in enumerate([1, 2, 3, most_errors // 2, most_errors]):
        errors = Random(200 + seed).positions(count, matrix.shape[1])
        wrong = np.zeros(matrix.shape[1], dtype=np.uint8)
        wrong[errors] = 1
        found = decoder.decode((matrix.astype(np.int64) @ wrong % 2).astype(np.uint8))
        assert (found == wrong).all(), f"the package ldpc does not correct {count} errors of {code}"
        yield f"ldpc-read {data_bytes} {parity_bytes} 1 {','.join(map(str, errors))}"


def main():
    ftlab, quick = sys.argv[1], "--quick" in sys.argv[2:]
    # Field degree, t, bytes of data; galois takes half a minute at m = 14 and computes one there.
    codes = [(7, 3, 8), (8, 2, 16), (9, 5, 30), (10, 4, 64), (11, 11, 200), (13, 8, 512)]
    if not quick:
        codes += [(12, 16, 256), (13, 40, 512), (14, 24, 1024), (14, 24, 1038), (14, 40, 1024), (15, 8, 2048), (15, 60, 2048)]
    for m, t, data_bytes in codes:
        algebra = m <= (9 if quick else 13) or (m, t, data_bytes) == (14, 24, 1024)
        for line in bch_vectors(m, t, data_bytes, with_galois=algebra):
            print(line)
    shapes = [(512, 64, 12)] if quick else [(512, 64, 12), (1024, 56, 6), (1024, 128, 30), (2048, 256, 60)]
    for shape in shapes:
        for line in ldpc_vectors(ftlab, *shape):
            print(line)


if __name__ == "__main__":
    main()
