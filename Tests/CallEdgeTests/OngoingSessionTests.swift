import CallCore
import CallEdge
import CallWire
import Testing

private let one = CallID(high: 1, low: 1)

/// How an edge's session shows its device which calls the user is in.
@Suite struct OngoingSessionTests {
  private static let call = OngoingCall(
    call: one, callee: "ann", isPlaced: false, device: "tablet", peer: "bob",
    since: SessionMachine.start)

  private func calls(_ version: UInt64, _ calls: [OngoingCall] = [call]) -> OngoingCalls {
    OngoingCalls(version: version, calls: calls)
  }

  private func attaching(asks: Bool = true, terms: AppTerms = AppTerms(ongoingCalls: true))
    -> SessionMachine
  {
    var machine = SessionMachine(claims: .of(), terms: terms)
    machine.say(1, .attach(AttachRequest(device: "phone", wantsOngoing: asks)))
    return machine
  }

  private func attached(_ ongoing: OngoingCalls = OngoingCalls(version: 5)) -> SessionMachine {
    var machine = attaching()
    machine.reply(1, .attach(Attach()), .attached(forCall: nil, ongoing: ongoing))
    return machine
  }

  private func mark(_ machine: SessionMachine) -> OngoingMark? {
    guard case .attach(let attach) = machine.session.announcement else { return nil }
    return attach.ongoing
  }

  @Test("the shard is asked where the device asks and its app has it")
  func asked() {
    for (asks, has) in [(true, true), (true, false), (false, true)] {
      var machine = attaching(asks: asks, terms: AppTerms(ongoingCalls: has))
      let marks = machine.take().compactMap { action -> OngoingMark?? in
        if case .forward(_, _, .attach(let attach)) = action { attach.ongoing } else { nil }
      }
      #expect(marks == [asks && has ? OngoingMark() : nil])
    }
  }

  @Test func theReplyToTheAttachHasThem() {
    var machine = attached(calls(5))
    let replies = machine.take().compactMap { action -> OngoingCalls? in
      if case .reply(1, .attached(let info)) = action { info.ongoing } else { nil }
    }
    #expect(replies == [calls(5)])
    #expect(mark(machine) == OngoingMark(version: 5, showsCalls: true))
  }

  /// Which of the versions are written.
  private func written(
    _ versions: [UInt64], to machine: inout SessionMachine, _ calls: [OngoingCall] = [call]
  ) -> [UInt64] {
    versions.filter { machine.session.willShow(OngoingCalls(version: $0, calls: calls)) }
  }

  @Test("what is older than the device has, or comes before the attach's reply, is dropped")
  func older() {
    var early = attaching()
    let none = written([9], to: &early)
    #expect(none.isEmpty)
    var machine = attached()
    // A version comes again where its acknowledgement was lost.
    let some = written([4, 6, 6, 5], to: &machine)
    #expect(some == [6, 6])
    let over = written([7], to: &machine, [])
    #expect(over == [7] && mark(machine) == OngoingMark(version: 7))
  }

  @Test("R23: what a former owner sends after the session was announced to the next is dropped")
  func formerOwner() {
    var machine = attached(calls(3 << 20 | 7))
    machine.session.noteOwner(epoch: 4)
    #expect(mark(machine) == OngoingMark(version: 4 << 20, showsCalls: true))
    let shown = written([3 << 20 | 8, 4 << 20 | 1], to: &machine, [])
    #expect(shown == [4 << 20 | 1])
    // It is asked again by the same owner, and once more by the former one.
    for epoch in [4, 3] as [UInt64] { machine.session.noteOwner(epoch: epoch) }
    #expect(mark(machine) == OngoingMark(version: 4 << 20 | 1))
  }

  @Test(
    "a former owner's reply to the attach was late: the present owner shows what it believes to be known"
  )
  func formerOwnersReply() {
    var machine = attaching()
    machine.session.noteOwner(epoch: 4)
    let late = Reply.attached(forCall: nil, ongoing: calls(3 << 20 | 7))
    machine.reply(1, .attach(Attach()), late)
    let actions = machine.take()
    #expect(actions.contains(.announce))
    #expect(mark(machine) == OngoingMark(version: 4 << 20, showsCalls: true))
    var other = attaching()
    other.session.noteOwner(epoch: 4)
    other.reply(1, .attach(Attach()), .attached(forCall: nil, ongoing: calls(4 << 20 | 1)))
    let others = other.take()
    #expect(!others.contains(.announce))
  }

  @Test func acknowledgementsGoToTheUsersOwnShard() {
    var machine = attached()
    _ = machine.take()
    machine.say(0, .ack([AckItem(ongoing: 6)]))
    let item = Acknowledgement(call: Acknowledgement.ongoingID, version: 6)
    let actions = machine.take()
    #expect(actions == [.acknowledge(callee: UserKey(app: "demo", user: "ann"), [item])])
  }

  @Test("who placed a call reports to whom, and since when, also where second calls ring")
  func details() {
    var machine = attached()
    _ = machine.take()
    machine.say(3, .call(CallAddress(callee: "bob", call: one), .resume))
    let state = CallState(
      call: one, callee: "bob", phase: .answered, at: SessionMachine.start + .seconds(-9))
    machine.reply(3, .call(one, .resume), .call(state))
    let detail = Talking.Detail(callee: "bob", since: SessionMachine.start + .seconds(-9))
    let reports = machine.takeReports()
    #expect(reports == [Talking(number: 1, calls: [one], details: [detail])])
  }

  @Test("who has the other side is reported, where that is not the callee, and when it changes")
  func otherSide() {
    var machine = attached()
    _ = machine.take()
    machine.say(3, .call(CallAddress(callee: "bob", call: one), .resume))
    let carol = Party(user: "carol", device: "c1")
    let state = CallState(
      call: one, callee: "bob", phase: .answered, by: carol, at: SessionMachine.start)
    machine.reply(3, .call(one, .resume), .call(state))
    func detail(_ peer: String) -> Talking.Detail {
      Talking.Detail(callee: "bob", since: SessionMachine.start, peer: peer)
    }
    #expect(machine.takeReports().map(\.details) == [[detail("carol")]])
    let moved = Moved(to: Party(user: "dave", device: "d1"), number: 1)
    let isDelivered = machine.session.willDeliver(
      Delivery(
        call: one, callee: "bob", version: 5, at: SessionMachine.start, event: .moved(moved)))
    #expect(isDelivered)
    machine.say(4, .call(CallAddress(callee: "bob", call: one), .connected))
    machine.reply(4, .call(one, .connected), .done)
    #expect(machine.takeReports().map(\.details) == [[detail("dave")]])
  }

  @Test("an app that chooses anew is asked anew, and an earlier report is taken back")
  func newTerms() {
    let gates = AppGates(
      ["demo": AppTerms(ongoingCalls: true)], usersMax: 10, registry: nil,
      now: SessionMachine.start)
    var machine = SessionMachine.attached(apps: gates)
    func resume(_ id: UInt64) {
      machine.say(id, .call(CallAddress(callee: "bob", call: one), .resume))
      let state = CallState(call: one, callee: "bob", phase: .answered)
      machine.reply(id, .call(one, .resume), .call(state))
    }
    resume(3)
    var reports = machine.takeReports()
    #expect(reports.map(\.calls) == [[one]])
    gates.update(["demo": AppTerms()], now: SessionMachine.start)
    resume(4)
    reports = machine.takeReports()
    #expect(reports.map(\.calls) == [[]])
    resume(5)
    reports = machine.takeReports()
    #expect(reports.isEmpty)
    gates.update(["demo": AppTerms(secondCalls: .busy)], now: SessionMachine.start)
    resume(6)
    reports = machine.takeReports()
    #expect(reports == [Talking(number: 3, calls: [one])])
  }
}
