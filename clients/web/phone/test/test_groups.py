"""A call to a group: all members ring, one answers, the others say where."""

from stage import StageTest


class Groups(StageTest):
    def test_all_ring_and_one_answers(self):
        # A contact like any other: the caller need not know that it is a group.
        self.cluster.put_group("dora", ["bob", "carl"], "together")
        ann, bob, carl = self.phone("ann"), self.phone("bob"), self.phone("carl")
        ann.call("Dora")
        for member in (bob, carl):
            member.rings().sees("Ann is calling for Dora")
        ann.sees("Ringing at ")
        carl.do("answer").talks()
        bob.sees("Answered on Carl's browser").sees_not(".card.ringing")
        ann.talks().grows("audio", "energy").sees("Carl on Carl's browser")
        carl.do("hang-up")
        ann.sees("Carl hung up")
