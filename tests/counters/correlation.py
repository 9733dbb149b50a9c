#!/usr/bin/env python3
"""The values that the tests of `results::correlation` expect, by SciPy: run it and compare with the table of the test."""
import scipy.stats as s

# A small linear congruential generator: the same columns as the test makes.
def column(seed, n):
    out = []
    for _ in range(n):
        seed = (seed * 1103515245 + 12345) % 2**31
        out.append(seed // 65536 % 1000)
    return out

for seed, n, share in [(1, 12, 0), (2, 30, 1), (3, 30, 4), (4, 150, -2), (5, 9, 0)]:
    x, noise = column(seed, n), column(seed + 100, n)
    y = [share * a + b for a, b in zip(x, noise)]
    r = s.pearsonr(x, y)
    low, high = r.confidence_interval(0.95)
    rho = s.spearmanr(x, y).statistic
    error = s.linregress(s.zscore(x), s.zscore(y)).stderr
    print(f"({seed}, {n}, {share}, {r.statistic:.9f}, {error:.9f}, ({low:.9f}, {high:.9f}), {rho:.9f}, {r.pvalue:.6e}),")
