"""Rating models, one per file or folder, and their registry.

A model is added by its file and one line of `MODELS`: the module and the name of its record (`jaxcf.contract`). A
model's module, and JAX with it, is imported when its record is first asked for.
"""

from jaxcf.contract import RatingModel
from jaxfit.registry import Registry

MODELS = {
    "user-bias": "jaxcf.models.bias:USER_BIAS",
    "item-bias": "jaxcf.models.bias:ITEM_BIAS",
    "bias": "jaxcf.models.bias:BIAS",
    "svd": "jaxcf.models.pmf:SVD",
    "svd-bias": "jaxcf.models.pmf:SVD_BIAS",
    "pmf": "jaxcf.models.pmf:PMF",
    "cpmf": "jaxcf.models.cpmf.model:CPMF",
    "rbm": "jaxcf.models.rbm.model:RBM",
    "crbm": "jaxcf.models.crbm:CRBM",
    "masked-rbm": "jaxcf.models.masked_rbm:MODEL",
    "popularity": "jaxcf.models.popularity:MODEL",
    "wmf": "jaxcf.models.wmf:MODEL",
}
REGISTRY: Registry[RatingModel] = Registry("rating model", MODELS, "language models are for jaxlm")
names, get, require = REGISTRY.names, REGISTRY.get, REGISTRY.require
