"""One source lies in favour of its friend; revoking it leaves the memory as if it had never spoken."""

from sigma_mem import SigmaMem

with SigmaMem(peers=["honest", "friend"]) as mem:
    for i in range(30):
        d = mem.vote(f"Task number {i}", {"honest": "right answer", "friend": "wrong answer"})
        mem.feedback(d.id, {"honest": True, "friend": False}, source="unit-tests")
        mem.feedback(d.id, {"honest": False, "friend": True}, source="liar")
    print("with the liar:   ", {peer: round(p, 2) for peer, p in mem.route("Task number 31").probs.items()})
    print("lines taken back:", mem.revoke("liar"))
    print("without:         ", {peer: round(p, 2) for peer, p in mem.route("Task number 32").probs.items()})
