"""A call to the group that `make phone` makes: all members ring, one answers, the others say where."""

from phones import PhoneTest


class Groups(PhoneTest):
    def test_all_ring_and_one_answers(self):
        ann, bob, carl = self.phone("ann"), self.phone("bob"), self.phone("carl")
        ann.sees("Bob, Carl and Dora ring together").call("Team")
        for member in (bob, carl):
            member.rings().sees("Ann is calling for Team")
        ann.sees("Ringing at ")
        carl.do("answer").talks()
        bob.sees("Answered on Carl's browser").sees_not(".card.ringing")
        ann.talks().grows("audio", "energy").sees("Carl on Carl's browser")
        carl.do("hang-up")
        ann.sees("Carl hung up")
