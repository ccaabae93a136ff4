"""What a fit leaves in each estimator of scikit-learn that a saved model may hold: names, types and shapes.

Only what predictions are made of is written down, and only that is saved and loaded. What is checked beyond it, because
compiled code reads memory by it, is in `compiled_parts`.

    f[C,F]  an array of floats, `i` of integers, `b` of truth values, `a` of numbers or texts, `o` of any part; f: of any shape
    int float bool str   one value; `=C` that number
    plain   texts and numbers, in lists, tuples and dicts
    Name    a part of that class; `part` is any that a model may hold, `parts` a list or tuple of them
    parts[n]   a list of as many
    x?      or None

Letters are sizes, the same for all attributes of an estimator: F columns it was given, C classes, K of them that have scores of
their own (one of two classes). A size that no other attribute shares is written as *.
"""

from __future__ import annotations

LINEAR = "classes_:a[C] coef_:f[K,F] intercept_:f[K]"
FOREST = "estimator:part classes_:a[C] n_classes_:=C n_outputs_:=1 estimators_:parts"
TREE = "classes_:a[C] n_classes_:=C n_outputs_:=1 tree_:Tree"
NAIVE = "classes_:a[C] feature_log_prob_:f[C,F] class_log_prior_:f[C]"
WORDS = "vocabulary_:plain"
CODES = "categories_:parts[F] _infrequent_enabled:bool _infrequent_indices:parts[F]? _default_to_infrequent_mappings:parts[F]?"
# By package, as users import them.
# fmt: off
ESTIMATORS: dict[str, dict[str, str]] = {
    "calibration": {"CalibratedClassifierCV": "classes_:a[C] calibrated_classifiers_:parts"},
    "cluster": {
        "KMeans": "_n_threads:int cluster_centers_:f[*,F]",
        "MiniBatchKMeans": "_n_threads:int cluster_centers_:f[*,F]",
    },
    "compose": {
        "ColumnTransformer": "transformers_:parts sparse_output_:bool _transformer_to_input_indices:plain "
            "output_indices_:plain _remainder:parts _n_features:int _name_to_fitted_passthrough:plain",
    },
    "decomposition": {
        "PCA": "components_:f[P,F] mean_:f[F] explained_variance_:f[P]",
        "TruncatedSVD": "components_:f[*,F]",
    },
    "discriminant_analysis": {
        "LinearDiscriminantAnalysis": LINEAR + " xbar_:f[F] scalings_:f[F,*] _max_components:int",
        "QuadraticDiscriminantAnalysis": "classes_:a[C] priors_:f[C] means_:f[C,F] scalings_:parts[C] rotations_:parts[C]",
    },
    "dummy": {
        "DummyClassifier": "classes_:a[C] class_prior_:f[C] n_classes_:=C n_outputs_:=1 sparse_output_:bool _strategy:str",
    },
    "ensemble": {
        "AdaBoostClassifier": "classes_:a[C] n_classes_:=C estimators_:parts[E] estimator_weights_:f[*]",
        "BaggingClassifier": "classes_:a[C] n_classes_:=C estimators_:parts[E] estimators_features_:parts[E]",
        "ExtraTreesClassifier": FOREST,
        "GradientBoostingClassifier": "classes_:a[C] n_trees_per_iteration_:int init_:part estimators_:o[*,K] _loss:part",
        "HistGradientBoostingClassifier": "classes_:a[C] n_trees_per_iteration_:int _baseline_prediction:f[1,K] "
            "_predictors:parts _loss:part "
            "_bin_mapper:_BinMapper _preprocessor:ColumnTransformer? _is_categorical_remapped:b[F]? _n_features:int",
        "RandomForestClassifier": FOREST,
        "StackingClassifier": "classes_:a[C] estimators_:parts final_estimator_:part stack_method_:plain _label_encoder:part",
        "VotingClassifier": "classes_:a[C] estimators_:parts le_:LabelEncoder",
    },
    "feature_extraction": {
        "CountVectorizer": WORDS, "HashingVectorizer": "", "TfidfTransformer": "idf_:f[F]",
        "TfidfVectorizer": WORDS + " _tfidf:TfidfTransformer",
    },
    "feature_selection": {
        "SelectKBest": "scores_:f[F]", "SelectPercentile": "scores_:f[F]", "VarianceThreshold": "variances_:f[F]",
    },
    "frozen": {"FrozenEstimator": ""},
    "impute": {
        "MissingIndicator": "features_:i[*] _precomputed:bool _n_features:int",
        "SimpleImputer": "statistics_:a[F] indicator_:MissingIndicator? _fit_dtype:plain _fill_dtype:plain",
    },
    "kernel_approximation": {
        "Nystroem": "components_:f[P,F] normalization_:f[P,P]", "RBFSampler": "random_weights_:f[F,P] random_offset_:f[P]",
    },
    "linear_model": {
        "LogisticRegression": LINEAR, "LogisticRegressionCV": LINEAR,
        "RidgeClassifier": "classes_:a[C] coef_:f intercept_:f _label_binarizer:LabelBinarizer", "SGDClassifier": LINEAR,
    },
    "mixture": {"GaussianMixture": "weights_:f[P] means_:f[P,F] precisions_cholesky_:a"},
    "naive_bayes": {
        "BernoulliNB": NAIVE, "CategoricalNB": "classes_:a[C] class_count_:f[C] class_log_prior_:f[C] feature_log_prob_:parts[F]",
        "ComplementNB": NAIVE, "GaussianNB": "classes_:a[C] theta_:f[C,F] var_:f[C,F] class_prior_:f[C]", "MultinomialNB": NAIVE,
    },
    "neural_network": {
        "MLPClassifier": "classes_:a[C] coefs_:parts[L] intercepts_:parts[L] n_layers_:int n_outputs_:int out_activation_:str "
            "_label_binarizer:LabelBinarizer",
    },
    "pipeline": {"FeatureUnion": "", "Pipeline": ""},
    "preprocessing": {
        "Binarizer": "", "FunctionTransformer": "", "Normalizer": "",
        "KBinsDiscretizer": "bin_edges_:o[F] n_bins_:i[F] _encoder:OneHotEncoder",
        "LabelBinarizer": "classes_:a[C] y_type_:str sparse_input_:bool", "LabelEncoder": "classes_:a[C]",
        "MaxAbsScaler": "scale_:f[F]", "MinMaxScaler": "scale_:f[F] min_:f[F]",
        "OneHotEncoder": CODES + " _n_features_outs:plain drop_idx_:a[F]? _drop_idx_after_grouping:a[F]?",
        "OrdinalEncoder": CODES + " _missing_indices:plain",
        "PolynomialFeatures": "n_output_features_:int _n_out_full:int _min_degree:int _max_degree:int",
        "PowerTransformer": "lambdas_:f[F] _scaler:StandardScaler", "QuantileTransformer": "references_:f[P] quantiles_:f[P,F]",
        "RobustScaler": "center_:f[F]? scale_:f[F]?", "StandardScaler": "mean_:f[F]? scale_:f[F]?",
        "TargetEncoder": CODES + " classes_:a[*] encodings_:parts target_mean_:plain target_type_:str",
    },
    "svm": {"LinearSVC": LINEAR},
    "tree": {
        "DecisionTreeClassifier": TREE, "DecisionTreeRegressor": "n_outputs_:=1 tree_:Tree", "ExtraTreeClassifier": TREE,
    },
}
# What these estimators are made of, by their full names.
PARTS: dict[str, str] = {
    "sklearn._loss.link.Interval": "low:float high:float low_inclusive:bool high_inclusive:bool",
    "sklearn._loss.link.LogitLink": "interval_y_pred:Interval",
    "sklearn._loss.link.MultinomialLogit": "interval_y_pred:Interval",
    "sklearn._loss.loss.HalfBinomialLoss": "closs:part link:LogitLink n_classes:int? approx_hessian:bool "
        "constant_hessian:bool interval_y_true:Interval interval_y_pred:Interval xp:plain device:plain",
    "sklearn._loss.loss.HalfMultinomialLoss": "closs:part link:MultinomialLogit n_classes:int? approx_hessian:bool "
        "constant_hessian:bool interval_y_true:Interval interval_y_pred:Interval xp:plain device:plain",
    "sklearn.calibration._CalibratedClassifier": "estimator:part calibrators:parts classes:a[*] method:str",
    "sklearn.calibration._SigmoidCalibration": "a_:float b_:float",
    "sklearn.compose._column_transformer._RemainderColsList":
        "data:plain future_dtype:plain warning_was_emitted:bool warning_enabled:bool",
    "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper": "n_bins:int subsample:int? is_categorical:b[*]? "
        "known_categories:parts? random_state:plain n_threads:int is_categorical_:i[W] missing_values_bin_idx_:int "
        "bin_thresholds_:parts[W] n_bins_non_missing_:i[W]",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor":
        "nodes:a raw_left_cat_bitsets:i[*,8] binned_left_cat_bitsets:i[*,8]",
    "sklearn.tree._tree.Tree": "",
}
# fmt: on

# What these are made of in turn, and what holds nothing: boosted trees carry their loss. skops trusts it by the name that the
# installed scikit-learn gives it; files of later versions have this one.
LOSSES = {"sklearn._loss._loss.CyHalfBinomialLoss", "sklearn._loss._loss.CyHalfMultinomialLoss"}
OF_EVERY_ESTIMATOR = {"n_features_in_": "int", "feature_names_in_": "a[F]", "_sklearn_output_config": "plain"}
# Parts of ours that say by no type what they hold.
OWN_ATTRIBUTES = {
    name: dict(one.split(":") for one in written.split())
    for name, written in {
        "Codes": "values_:a",
        "CoralClassifier": "n_features_in_:int feature_names_in_:a[F] schema_:Schema classes_:a groups_:a "
        "space_:Space models_:parts unaligned_:part",
        "FeatureEncoder": "names_:plain kinds_:plain categories_:parts left_out_:plain",
        "GivenPartition": "clusterer:part codes_:Codes fallback_:int",
        "GroupAwareClassifier": "n_features_in_:int feature_names_in_:a schema_:Schema classes_:a groups_:a "
        "model_:GroupShiftClassifier",
        "GroupShiftClassifier": "n_features_in_:int feature_names_in_:a schema_:Schema learned_:Learned estimate_:Estimate "
        "evidence_:part audit_:part notes_:plain candidates_:plain",
        "LinearClassifier": "classes_:a space_:Space coef_:f[*,*]",
        "LinearPartition": "space:Space slope:f[*,P] intercept:f[P]",
        "Space": "mean_:f[D] scale_:f[D] is_category_:b[*]",
        "TableClassifier": "classes_:a encoder_:FeatureEncoder center_:f[*] scale_:f[*] estimator_:part",
        "WholeSpace": "",
    }.items()
}


def is_allowed_estimator(module: str, name: str) -> bool:
    """Whether a model may hold this class of scikit-learn.

    >>> is_allowed_estimator("sklearn.linear_model._logistic", "LogisticRegression")
    True
    >>> is_allowed_estimator("sklearn.svm._classes", "SVC")
    False
    """
    return attributes_of(module, name) is not None and f"{module}.{name}" not in PARTS


def attributes_of(module: str, name: str) -> dict[str, str] | None:
    """What is written down of a class of scikit-learn; None if nothing is.

    >>> attributes_of("sklearn.preprocessing._data", "MaxAbsScaler")
    {'scale_': 'f[F]'}
    """
    package, _, rest = module.partition(".")
    if package != "sklearn":
        return None
    found = PARTS.get(f"{module}.{name}", ESTIMATORS.get(rest.partition(".")[0], {}).get(name))
    return None if found is None else dict(one.split(":") for one in found.split())
