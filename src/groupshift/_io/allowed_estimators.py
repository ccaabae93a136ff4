"""Estimators of scikit-learn that a saved model may hold, and settings of theirs that would reach beyond the model.

Only what computes with the numbers in the file is here. What walks through memory by numbers from the file is here if
`sound_trees` can check it: decision trees are, support vector machines and trees of neighbours are not.
"""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import InvalidParameterError, validate_parameter_constraints

# By package, as users import them.
# fmt: off
ESTIMATORS = {
    "calibration": "CalibratedClassifierCV",
    "cluster": "KMeans MiniBatchKMeans",
    "compose": "ColumnTransformer",
    "decomposition": "PCA TruncatedSVD",
    "discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "dummy": "DummyClassifier",
    "ensemble": "AdaBoostClassifier BaggingClassifier ExtraTreesClassifier GradientBoostingClassifier "
        "HistGradientBoostingClassifier RandomForestClassifier StackingClassifier VotingClassifier",
    "feature_extraction": "CountVectorizer HashingVectorizer TfidfTransformer TfidfVectorizer",
    "feature_selection": "SelectKBest SelectPercentile VarianceThreshold",
    "frozen": "FrozenEstimator",
    "impute": "MissingIndicator SimpleImputer",
    "kernel_approximation": "Nystroem RBFSampler",
    "linear_model": "LogisticRegression LogisticRegressionCV RidgeClassifier SGDClassifier",
    "mixture": "GaussianMixture",
    "naive_bayes": "BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB",
    "neural_network": "MLPClassifier",
    "pipeline": "FeatureUnion Pipeline",
    "preprocessing": "Binarizer FunctionTransformer KBinsDiscretizer LabelBinarizer LabelEncoder MaxAbsScaler "
        "MinMaxScaler Normalizer OneHotEncoder OrdinalEncoder PolynomialFeatures PowerTransformer QuantileTransformer "
        "RobustScaler StandardScaler TargetEncoder",
    "svm": "LinearSVC",
    "tree": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier",
}
# fmt: on
# What these estimators are made of.
SKLEARN_PARTS = frozenset(
    {
        "sklearn._loss.link.Interval",
        "sklearn._loss.link.LogitLink",
        "sklearn._loss.link.MultinomialLogit",
        "sklearn._loss.loss.HalfBinomialLoss",
        "sklearn._loss.loss.HalfMultinomialLoss",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.compose._column_transformer._RemainderColsList",
        "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.tree._tree.Tree",
        "sklearn.utils._bunch.Bunch",
        "numpy.dtype",
    }
)
# Settings that may have one value only: others read or write files of the machine that predicts.
ONLY = {"input": "content", "memory": None}


def is_allowed_estimator(module: str, name: str) -> bool:
    """Whether a model may hold this class of scikit-learn.

    >>> is_allowed_estimator("sklearn.linear_model._logistic", "LogisticRegression")
    True
    >>> is_allowed_estimator("sklearn.svm._classes", "SVC")
    False
    """
    package, _, rest = module.partition(".")
    return package == "sklearn" and name in ESTIMATORS.get(rest.partition(".")[0], "").split()


def setting_problem(part: BaseEstimator) -> str | None:
    """What is wrong with the settings of an estimator of scikit-learn; None if nothing is."""
    name = type(part).__name__
    # A file of another version of scikit-learn may lack a setting that this one knows.
    settings = {name: getattr(part, name) for name in part._get_param_names() if hasattr(part, name)}
    for setting, only in ONLY.items():
        # NumPy's text is text.
        found = settings.get(setting, only)
        if type(found) not in (str, np.str_, type(None)) or found != only:
            return f"its {name} has {setting}={found!r}, which reaches files of this machine"
    if not hasattr(type(part), "_parameter_constraints"):
        return None
    try:
        validate_parameter_constraints(part._parameter_constraints, settings, caller_name=name)
    except (InvalidParameterError, ValueError, TypeError) as error:
        return f"its {name} has a setting that scikit-learn does not take ({error})"
    return None
