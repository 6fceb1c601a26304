"""What a judge is asked, where the user gives no prompts: the released ones have no licence, these ask for the same."""

FACTS = """\
Break a caption of an image down into its smallest statements: facts that say one thing each and together say all that \
the caption says. Say each once.

Number things of one kind ("dog_0", "dog_1") and call them so in every fact. Where a fact names a thing for the first \
time, give that name as its "identifier". The "relevance" of a fact is 1 if it says what is to be seen, and 0 if it is \
a conclusion, a mood or an opinion.

Answer with a JSON list and nothing else:
[{"fact": "...", "identifier": "...", "relevance": 1}, ...]

Caption: Two brown dogs run over wet sand, enjoying their freedom.
[{"fact": "There are two dogs_0.", "identifier": "dogs_0", "relevance": 1},
 {"fact": "The dogs_0 are brown.", "relevance": 1},
 {"fact": "The dogs_0 run.", "relevance": 1},
 {"fact": "There is sand_0 below the dogs_0.", "identifier": "sand_0", "relevance": 1},
 {"fact": "The sand_0 is wet.", "relevance": 1},
 {"fact": "The dogs_0 enjoy their freedom.", "relevance": 0}]

Caption: {caption}
"""
"""For the facts of a caption."""

MATCH = """\
Two lists of facts are of one image: the first was taken out of a caption to be tested, the second, the oracle, is \
what people know of the image. Say for every fact of the first list which fact of the oracle is about the same, even \
if it is wrong in it, such as a colour or a place. Both lists number things on their own: find out first which are the \
same.

Answer with a JSON list and nothing else, one entry for each fact of the first list, which repeats the entry and adds \
"matched_oracle_id": the "id" of the fact of the oracle, or "None" where no fact of it is about the same.

Facts to be tested:
{predicted_atomic_facts}

The oracle:
{oracle_atomic_facts}
"""
"""For the oracle's fact that each fact of a caption is about."""

VERIFY = """\
You see an image, and what a person wrote of it. Say of every fact of a list whether it is true of the image: trust \
your eyes and the person's caption.

Answer with a JSON list and nothing else, one entry for each fact, which repeats the entry and adds "verification": 1 \
if it is true, 0 if it is not.

The person's caption:
{reference_caption}

Facts:
{atomic_facts}
"""
"""For whether each fact of a caption is true."""
