"""Route tasks to the better of two functions, learning from tests which is better at what."""

from sigma_mem import SigmaMem


def adder(task: str) -> str:
    """Good at sums; reads every task as one."""
    numbers = [int(word) for word in task.replace("?", " ").split() if word.isdigit()]
    return str(sum(numbers))


def speller(task: str) -> str:
    """Good at spelling; looks for a quoted word."""
    return task.split("'")[1][::-1] if "'" in task else ""


agents = {"adder": adder, "speller": speller}
tasks = []
for i in range(40):
    tasks.append((f"What is {i} plus {3 * i} ?", str(4 * i)))
    word = f"word{i}"
    tasks.append((f"How is '{word}' spelled backwards?", word[::-1]))

right = 0
with SigmaMem(peers=list(agents)) as mem:
    for question, truth in tasks:
        d = mem.route(question)
        right += agents[d.peer](question) == truth
        # Here every agent can be tested. With mem.route(question, explore=True) the chosen one is enough.
        mem.feedback(d.id, {name: agent(question) == truth for name, agent in agents.items()}, source="tests")
    print(f"{right} of {len(tasks)} tasks went to an agent that solved them")
    print(mem.explain(mem.route("What is 2 plus 2 ?").id))
