"""A small stream of text with labels in a tree, for examples without a download."""

import numpy as np
from sklearn.utils import check_random_state

from kernelstream.parts import integer_at_least

__all__ = ["tickets"]

# Phrases by group and by topic. A ticket has one phrase of its group and one of its topic.
_GROUPS = {
    "account": ["my account", "the profile page", "my user name", "the login screen"],
    "billing": ["the invoice", "my last payment", "the monthly bill", "my credit card"],
    "device": ["the device", "this tablet", "my new phone", "the hardware"],
    "network": ["the connection", "our wifi", "the router", "internet at home"],
}
_TOPICS = {
    "account/closing": ["please delete it", "I want to close it", "remove all my data"],
    "account/password": ["I forgot the password", "the reset mail never came", "it is locked"],
    "account/profile": ["my name is spelled wrong", "change the address", "update my photo"],
    "billing/refund": ["I want my money back", "please refund this order", "return the amount"],
    "billing/twice": ["it was charged twice", "there is a duplicate charge", "paid two times"],
    "billing/unclear": ["what is this fee", "the sum looks wrong", "explain the extra cost"],
    "device/battery": ["it drains in an hour", "it does not charge", "the charger gets hot"],
    "device/camera": ["pictures are blurred", "the lens is scratched", "no photos in the dark"],
    "device/screen": ["the display is cracked", "it stays black", "there are lines on the glass"],
    "network/outage": ["nothing works since noon", "it is down in our street", "no signal at all"],
    "network/slow": ["pages take minutes", "video stops all the time", "the speed is a joke"],
}
_OPENINGS = ["hello", "hi team", "good morning", "dear support", "again", "urgent", ""]
_CLOSINGS = ["thanks", "please help", "what can I do", "I need this today", "regards", ""]


def tickets(n_rows: int = 2000, random_state: int | None = 0) -> tuple[list[str], np.ndarray]:
    """Make a stream of short messages to a help desk, and their topics.

    Parameters
    ----------
    n_rows : int, default=2000
        The number of messages.
    random_state : int, RandomState instance or None, default=0
        Seed of the random generator.

    Returns
    -------
    texts : list of str
        The messages.
    labels : ndarray of str
        Their topics, as paths in a tree of 4 groups and 11 topics, such as "billing/refund". One
        label in 20 is wrong: it is that of another topic of the same group.

    Examples
    --------
    >>> from kernelstream.streams import tickets
    >>> texts, labels = tickets(3)
    >>> labels.tolist()
    ['billing/unclear', 'billing/twice', 'device/battery']
    """
    integer_at_least("n_rows", n_rows, 1)
    random = check_random_state(random_state)
    topics = list(_TOPICS)
    texts, labels = [], []
    for _ in range(n_rows):
        topic = topics[random.randint(len(topics))]
        group = topic.split("/")[0]
        pieces = [_OPENINGS, _GROUPS[group], _TOPICS[topic], _CLOSINGS]
        texts.append(" ".join(piece[random.randint(len(piece))] for piece in pieces).strip())
        if random.random_sample() < 0.05:
            siblings = [other for other in topics if other.startswith(group) and other != topic]
            topic = siblings[random.randint(len(siblings))]
        labels.append(topic)
    return texts, np.array(labels)
