"""Every task is built from YAML by class_path, with its own arguments and those all tasks share."""

from __future__ import annotations

import pytest
from jsonargparse import ArgumentParser

from lit_rl.data.task import TaskDataModule

TASKS = {
    "lit_rl.data.humaneval.HumanEval": {"split": "train", "form": "instruct"},
    "lit_rl.data.mbpp.MBPP": {"few_shot": 3, "form": "completion"},
    "lit_rl.data.mbpp.MBPPPlus": {"path": "MbppPlus-OriginFmt.jsonl.gz", "form": "completion"},
    "lit_rl.data.contests.deepcoder.DeepCoder": {"train": ["lcbv5"], "validation": ["codeforces"]},
    "lit_rl.data.open_code_instruct.OpenCodeInstruct": {"num_problems": 7},
    "lit_rl.data.preferences.PreferencePairs": {"path": "pairs.jsonl"},
}


@pytest.mark.parametrize("class_path", TASKS)
def test_a_task_is_built_from_its_class_path_without_data_and_a_mistyped_key_is_refused(class_path):
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(TaskDataModule, "data")
    shared = {"batch_size": 3, "seed": 5}
    nested = [{"class_path": "lit_rl.data.humaneval.HumanEval", "init_args": {"name": "mine"}}]
    init_args = TASKS[class_path] | shared | {"validation_tasks": nested}
    config = parser.parse_object({"data": {"class_path": class_path, "init_args": init_args}})
    data = parser.instantiate_classes(config).data
    assert f"{type(data).__module__}.{type(data).__name__}" == class_path
    assert (data.batch_size, data.seed) == (3, 5)
    assert data.validation_task_names == ("mine",)
    with pytest.raises(Exception, match="batch_sise"):
        parser.parse_object({"data": {"class_path": class_path, "init_args": TASKS[class_path] | {"batch_sise": 3}}})
