"""
Writes the digits data set, shuffled orders of its rows, and what the LinUCB of mabwiser earns on each order, as JSON.

Usage: python digits.py FILE [ORDERS]        needs: pip install scikit-learn mabwiser

One pass over the 1,797 rows: the policy sees the 64 features of a row (0 to 1), names a digit, and learns from the reward,
1 for the right digit and else 0. Read by `npm run bench:learning -- --digits FILE`.
"""
import json
import sys

import numpy as np
from mabwiser.mab import MAB, LearningPolicy
from sklearn.datasets import load_digits

ALPHAS = (1.0, 0.25, 0.1)


def play(features, labels, order, alpha, seed):
    """Mean reward of one pass."""
    policy = LearningPolicy.LinUCB(alpha=alpha, l2_lambda=1)
    bandit = MAB(arms=list(range(10)), learning_policy=policy, seed=seed)
    total = 0
    for step, row in enumerate(order):
        context = features[row : row + 1]
        # mabwiser predicts nothing before its first fit.
        arm = int(np.random.default_rng(seed).integers(10)) if step == 0 else bandit.predict(context)
        reward = int(arm == labels[row])
        (bandit.fit if step == 0 else bandit.partial_fit)([arm], [reward], context)
        total += reward
    return total / len(order)


def main(path, count):
    digits = load_digits()
    features = digits.data / 16
    labels = digits.target
    orders = [np.random.default_rng(seed).permutation(len(labels)) for seed in range(count)]
    reached = {
        str(alpha): [play(features, labels, order, alpha, seed) for seed, order in enumerate(orders)]
        for alpha in ALPHAS
    }
    with open(path, "w", encoding="utf-8") as file:
        rows = {
            "rows": features.tolist(),
            "labels": labels.tolist(),
            "orders": [order.tolist() for order in orders],
            "mabwiser": reached,
        }
        json.dump(rows, file)
    for alpha, means in reached.items():
        print(f"alpha {alpha}: {np.mean(means):.4f} ± {1.96 * np.std(means, ddof=1) / np.sqrt(count):.4f}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10)
