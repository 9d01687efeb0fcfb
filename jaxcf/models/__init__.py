"""Rating models, one per file, or per folder where a model needs several."""
