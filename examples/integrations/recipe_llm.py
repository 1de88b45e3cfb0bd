"""simonw/llm: a plugin with a model that learns which of two models to call."""

import llm

from sigma_mem import SigmaMem
from sigma_mem.integrations.chooser import Chooser


class Sigma(llm.Model):
    model_id, can_stream = "sigma", True

    def __init__(self, memory, models):
        self.chooser, self.models = Chooser(memory), models

    def execute(self, prompt, stream, response, conversation):
        def begin(peer):
            answer = self.models[peer].prompt(prompt.prompt, system=prompt.system, stream=stream)
            next(iter(answer), "")  # a model that fails does so here
            return answer

        answer, pick = self.chooser.call(self.chooser.choose(prompt.prompt, self.models), begin)
        response.response_json = {"sigma_ref": pick.ref}  # kept in the log of llm
        yield from answer


class Offline(llm.Model):  # for real llm.get_model("gpt-…"), and in the plugin's module:
    can_stream = True  # @llm.hookimpl
    # def register_models(register): register(Sigma(memory, {name: llm.get_model(name) for name in …}))

    def __init__(self, says):
        self.model_id, self.says = says, says

    def execute(self, prompt, stream, response, conversation):
        yield from self.says


models = {"careless": Offline("41"), "careful": Offline("42")}
with SigmaMem(list(models), path="memory.db", seed=0) as memory:  # or the URL of a service
    model, right = Sigma(memory, models), []
    for number in range(60):
        response = model.prompt(f"Task {number}: what is 6 times 7?")
        right.append(response.text() == "42")
        model.chooser.feedback(response.response_json["sigma_ref"], right[-1])  # now, or much later
print(f"right: {sum(right)} of 60, {sum(right[-20:])} of the last 20")
