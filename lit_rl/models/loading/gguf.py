"""A converter: ``python -m lit_rl.models.loading.gguf FILE FOLDER`` writes a model of llama.cpp as a folder.

GGUF holds weights, configuration and tokenizer in one file. Quantized weights become plain ones in float32.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lit_rl.models.loading.sources import NO_FOREIGN_CODE, resolve_model_source


def convert_gguf(source: str, folder: str) -> None:
    """Write the model and the tokenizer of a GGUF file as a folder of transformers."""
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file, options = Path(resolve_model_source(source)), {"dtype": "float32", **NO_FOREIGN_CODE}
    if hasattr(transformers, "GgufConfig"):  # without it, weights are always unpacked
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, **options)
    if hasattr(model.config, "quantization_config"):  # transformers would call plain weights quantized
        del model.config.quantization_config
    for note in ("hf_quantizer", "quantization_method", "is_quantized"):
        vars(model).pop(note, None)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, **NO_FOREIGN_CODE).save_pretrained(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", help="GGUF file, or package:NAME/FILE")
    parser.add_argument("folder", help="folder of the model")
    given = parser.parse_args()
    convert_gguf(given.source, given.folder)
