"""Programs with function values, references and tagged values: text, check, interpreter, evaluator."""
