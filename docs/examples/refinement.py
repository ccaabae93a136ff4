"""Does learning from unlabelled rows help? Against the truth, with few labels and many rows without."""

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from groupshift import GroupShiftClassifier
from groupshift.datasets import make_grouped_mixture
from groupshift.metrics import evaluate

print(f"{'setting':>7} {'draw':>4} {'without':>8} {'one round':>9} {'auto':>7} {'limit':>7}   what auto did")
for setting in (2, 1):
    for draw in (0, 1):
        sample = make_grouped_mixture(
            n_features=4,
            n_clusters=2,
            n_groups=40,
            labeled_per_group=(20, 0),
            unlabeled_per_group=(300, 0),
            setting=setting,
            random_state=draw,
        )
        X, y, groups, _ = sample.training()
        new_X, truth, new_groups = sample.testing()
        loss = {}
        for refine in (0, 1, "auto"):
            classifier = make_pipeline(SplineTransformer(n_knots=6), LogisticRegression(C=0.3, max_iter=2000))
            model = GroupShiftClassifier(
                classifier, partition=sample.partition, refine=refine, random_state=0
            )
            model.fit(X, y, groups=groups)
            p = model.predict_proba(new_X, groups=new_groups)[:, 1]
            loss[refine] = evaluate(truth, p, metrics="log_loss").overall["log_loss"]
        limit = evaluate(truth, sample.posterior[sample.test], metrics="log_loss").overall["log_loss"]
        did = "kept it" if any("was kept" in note for note in model.notes_) else "left it out"
        print(
            f"{setting:>7} {draw:>4} {loss[0]:>8.4f} {loss[1]:>9.4f} {loss['auto']:>7.4f} {limit:>7.4f}   {did}"
        )
