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

  private func attaching(asks: Bool = true, has: Bool = true) -> SessionMachine {
    var machine = SessionMachine(claims: .of(), apps: .of(AppTerms(ongoingCalls: has)))
    machine.say(1, .attach(AttachRequest(device: "phone", wantsOngoing: asks)))
    return machine
  }

  private func attached(_ ongoing: OngoingCalls = OngoingCalls(version: 5)) -> SessionMachine {
    var machine = attaching()
    machine.reply(1, .attach(Attach()), .attached(forCall: nil, ongoing: ongoing))
    return machine
  }

  @Test("the shard is asked where the device asks and its app has it")
  func asked() {
    for (asks, has) in [(true, true), (true, false), (false, true)] {
      var machine = attaching(asks: asks, has: has)
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
    #expect(machine.announced?.ongoing == OngoingMark(version: 5, showsCalls: true))
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
    #expect(written([9], to: &early).isEmpty)
    var machine = attached()
    // A version comes again where its acknowledgement was lost.
    #expect(written([4, 6, 6, 5], to: &machine) == [6, 6])
    #expect(written([7], to: &machine, []) == [7])
    #expect(machine.announced?.ongoing == OngoingMark(version: 7))
  }

  @Test("R23: what a former owner sends after the session was announced to the next is dropped")
  func formerOwner() {
    var machine = attached(calls(3 << 20 | 7))
    machine.session.noteOwner(epoch: 4)
    #expect(machine.announced?.ongoing == OngoingMark(version: 4 << 20, showsCalls: true))
    #expect(written([3 << 20 | 8, 4 << 20 | 1], to: &machine, []) == [4 << 20 | 1])
    // It is asked again by the same owner, and once more by the former one.
    for epoch in [4, 3] as [UInt64] { machine.session.noteOwner(epoch: epoch) }
    #expect(machine.announced?.ongoing == OngoingMark(version: 4 << 20 | 1))
  }

  @Test(
    "a former owner's reply to the attach was late: the present owner shows what it believes to be known",
    arguments: [(3 << 20 | 7, true), (4 << 20 | 1, false)] as [(UInt64, Bool)])
  func formerOwnersReply(version: UInt64, isLate: Bool) {
    var machine = attaching()
    machine.session.noteOwner(epoch: 4)
    machine.reply(1, .attach(Attach()), .attached(forCall: nil, ongoing: calls(version)))
    #expect(machine.take().contains(.announce) == isLate)
    let known = OngoingMark(version: isLate ? 4 << 20 : version, showsCalls: true)
    #expect(machine.announced?.ongoing == known)
  }

  @Test(
    "who placed a call reports to whom, since when, and who has the other side if not the callee")
  func details() {
    let since = SessionMachine.start + .seconds(-9)
    func details(_ peer: String) -> [Talking.Detail] {
      [Talking.Detail(callee: "bob", since: since, peer: peer)]
    }
    for peer in ["", "carol"] {
      var machine = attached()
      var state = CallState.of(
        one, .answered, by: peer.isEmpty ? nil : Party(user: peer, device: "c1"))
      state.at = since
      machine.resumed(state)
      let reports = machine.takeReports()
      #expect(reports == [Talking(number: 1, calls: [one], details: details(peer))])
      let moved = Moved(to: Party(user: "dave", device: "d1"), number: 1)
      machine.deliver(.moved(moved), of: one, version: 5)
      machine.say(4, .connected, one)
      machine.reply(4, .call(one, .connected), .done)
      #expect(machine.takeReports().map(\.details) == [details("dave")])
    }
  }

  @Test("an app that chooses anew is asked anew, and an earlier report is taken back")
  func newTerms() {
    let gates = AppGates.of(AppTerms(ongoingCalls: true))
    var machine = SessionMachine.attached(apps: gates)
    let state = CallState.of(one, .answered)
    machine.resumed(state)
    #expect(machine.takeReports().map(\.calls) == [[one]])
    gates.update(["demo": AppTerms()], now: SessionMachine.start)
    machine.resumed(state, as: 4)
    #expect(machine.takeReports().map(\.calls) == [[]])
    machine.resumed(state, as: 5)
    #expect(machine.takeReports().isEmpty)
    gates.update(["demo": AppTerms(secondCalls: .busy)], now: SessionMachine.start)
    machine.resumed(state, as: 6)
    #expect(machine.takeReports() == [Talking(number: 3, calls: [one])])
  }
}

/// The user's calls on their way from the shard to a device's socket and back, in both encodings.
@Suite(.timeLimit(.minutes(1))) struct OngoingSocketTests {
  private static let ongoing = OngoingCalls(
    version: 6,
    calls: [
      OngoingCall(
        call: CallID(high: 1, low: 1), callee: "ann", isPlaced: false, device: "tablet",
        deviceName: "Ann's tablet", peer: "bob", peerName: "Bob B.",
        since: Timestamp(microseconds: wallSeconds * 1_000_000))
    ])

  /// A device that has been shown its user's calls.
  private func withDevice(
    _ codec: DeviceCodec, _ body: (EdgeFixture, RawClient, _ session: UInt64) async throws -> Void
  ) async throws {
    try await EdgeFixture.run(terms: AppTerms(ongoingCalls: true)) { edge in
      edge.shards.follow { command in
        guard let attach = command.attach, command.request != 0 else { return nil }
        return .attached(
          forCall: nil, ongoing: attach.ongoing.map { _ in OngoingCalls(version: 5) })
      }
      let client = try await edge.socket(codec)
      let info = try await client.attach(
        AttachRequest(token: try edge.token("ann"), device: "phone", wantsOngoing: true))
      #expect(info.ongoing == OngoingCalls(version: 5))
      let session = try await edge.shards.next(\.isAttach).session.number
      edge.say(
        EdgeItem(session: session, body: .ongoing(OngoingCalls(version: 4))),
        EdgeItem(session: session, body: .ongoing(Self.ongoing)))
      #expect(try await client.message() == .ongoing(Self.ongoing))
      try await body(edge, client, session)
    }
  }

  @Test(
    "R21: a device is shown its user's calls, and acknowledges", arguments: DeviceCodec.allCases)
  func shown(codec: DeviceCodec) async throws {
    try await withDevice(codec) { edge, client, _ in
      client.say(0, .ack([AckItem(ongoing: 6)]))
      let ack = try await edge.shards.next(\.isAck)
      #expect(ack.callee == ann && ack.user == ack.callee)
      #expect(ack.body == .ack([Acknowledgement(call: Acknowledgement.ongoingID, version: 6)]))
    }
  }

  @Test("R10: a former owner's reply to the attach is late: the new owner shows the calls anew")
  func formerOwnersReply() async throws {
    try await EdgeFixture.run(terms: AppTerms(ongoingCalls: true)) { edge in
      edge.shards.follow { _ in nil }
      let client = try await edge.socket(.json)
      client.say(
        1,
        .attach(AttachRequest(token: try edge.token("ann"), device: "phone", wantsOngoing: true)))
      let attach = try await edge.shards.next(\.isAttach)
      edge.askForSessions(of: "ann", epoch: 7)
      _ = try await edge.shards.next { $0.isAttach && $0.request == attach.request }
      let reply = Reply.attached(forCall: nil, ongoing: Self.ongoing)
      edge.say(
        EdgeItem(
          session: attach.session.number, body: .reply(request: attach.request, reply)))
      #expect(try await client.reply().id == 1)
      let announced = try await edge.shards.next(\.isAnnouncement).attach
      #expect(announced?.ongoing == OngoingMark(version: 7 << 20, showsCalls: true))
    }
  }

  @Test("R10: a new owner learns what the device sees, and a former one shows it nothing more")
  func announced() async throws {
    try await withDevice(.json) { edge, client, session in
      edge.askForSessions(of: "ann", epoch: 7)
      let attach = try await edge.shards.next(\.isAnnouncement).attach
      #expect(attach?.ongoing == OngoingMark(version: 7 << 20, showsCalls: true))
      let end = OngoingCalls(version: 7 << 20 | 1)
      edge.say(
        EdgeItem(session: session, body: .ongoing(OngoingCalls(version: 8, calls: []))),
        EdgeItem(session: session, body: .ongoing(end)))
      #expect(try await client.message() == .ongoing(end))
    }
  }
}
