"""Ask the gateway, say how good the answer was, and see whom it trusts: python client.py [BASE_URL]."""

import sys

import openai

client = openai.OpenAI(
    base_url=sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8321/v1", api_key="none"
)
question = [{"role": "user", "content": "What is 17 * 23? Answer with the number alone."}]

for _ in range(10):
    answer = client.chat.completions.create(model="sigma-mem", messages=question)
    text = answer.choices[0].message.content or ""
    score = 1.0 if text.strip() == "391" else 0.0
    client.post("/feedback", cast_to=object, body={"id": answer.id, "score": score})
    print(f"{answer.model}: {text.strip()[:40]!r}, score {score:g}")

settled = client.chat.completions.create(
    model="sigma-mem", messages=question, extra_body={"sigma_mem": {"explore": False}}
)
print(f"trusted here: {settled.model}")
