import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

private let call = CallID(high: 7, low: 9)
private let ann = UserKey(app: "demo", user: "ann")
private let bob = UserKey(app: "demo", user: "bob")

/// A device that attaches because of a push for a call gets exactly one of six answers; the rules
/// themselves answer, behind a real edge.
@Suite struct ForCallTests {
  /// ann calls bob, whose tablet rings. Commands, in order, bring about the events before bob's phone has woken up,
  /// each a second after the one before.
  private struct Story {
    let shards = RealShards()
    var seconds: Int64 = 0
    var last: UInt64 = 0

    mutating func say(
      _ user: UserKey, _ device: DeviceID, _ body: Command.Body, session: UInt64
    ) -> Reply? {
      seconds += 1
      last += 1
      return shards.handle(
        Command(
          session: SessionRef(edge: 1, number: session), request: last, user: user,
          device: device, callee: bob, body: body), after: .seconds(seconds)
      ).reply
    }

    mutating func callersCommand(_ body: Command.Body) {
      _ = say(ann, "ann-phone", body, session: 1)
    }
    mutating func tabletSays(_ body: Command.Body) { _ = say(bob, "tablet", body, session: 2) }

    mutating func place() {
      tabletSays(.attach(Attach(deviceName: "Bob's tablet")))
      callersCommand(.place(PlaceRequest(call: call)))
    }
  }

  /// Attaches bob's phone for a call. Returns the state that it is answered, and the deliveries that come with it.
  private func attach(
    _ story: Story, after: Span? = nil, forCall: CallID = call,
    before: (EdgeFixture) async throws -> Void = { _ in }
  ) async throws -> (state: CallState?, deliveries: [Delivery]) {
    var result: (CallState?, [Delivery]) = (nil, [])
    let shards = story.shards
    let moment = after ?? .seconds(story.seconds + 1)
    try await EdgeFixture.run { edge in
      let fake = edge.shards
      fake.follow { command in
        guard command.user.app == "demo" else { return .done }
        let (reply, deliveries) = shards.handle(command, after: moment)
        var items: [EdgeItem] = []
        if let reply {
          items.append(
            EdgeItem(
              session: command.session.number, body: .reply(request: command.request, reply)))
        }
        for (session, delivery) in deliveries where session.edge == command.session.edge {
          items.append(EdgeItem(session: session.number, body: .delivery(delivery)))
        }
        if !items.isEmpty { fake.say(items, to: command.session.edge) }
        return nil
      }
      try await before(edge)
      let client = try await edge.client()
      try await client.upgrade()
      let token = try await edge.token("bob", device: "phone")
      client.say(1, .attach(AttachRequest(token: token, forCall: forCall)))
      guard case (1, .attached(let info)) = try await client.reply() else {
        throw TestFailure("not attached")
      }
      result.0 = info.forCall
      // Whatever was to come stands before the answer to this.
      client.say(2, .call(CallAddress(call: CallID(high: 0, low: 1)), .query))
      while true {
        switch try await client.message() {
        case .delivery(let delivery): result.1.append(delivery)
        case .reply(2, _): return
        case .reply, .notice, .ongoing, .history, .relays: continue
        }
      }
    }
    return result
  }

  /// The answer that it does not ring, and no invite.
  private func expectEnd(
    _ story: Story, _ reason: EndReason, by: DeviceID?, missed: Bool = false,
    after: Span? = nil, _ at: SourceLocation = #_sourceLocation
  ) async throws {
    let (state, deliveries) = try await attach(story, after: after)
    #expect(state?.phase == .ended, sourceLocation: at)
    #expect(state?.reason == reason, sourceLocation: at)
    #expect(state?.by?.device == by, sourceLocation: at)
    #expect(state?.missed == missed, sourceLocation: at)
    #expect(state?.call == call, sourceLocation: at)
    #expect(deliveries.isEmpty, sourceLocation: at)
  }

  @Test(arguments: [false, true]) func itStillRings(alerting: Bool) async throws {
    var story = Story()
    story.place()
    if alerting { story.tabletSays(.call(call, .alerting)) }
    let (state, deliveries) = try await attach(story)
    #expect(state?.phase == (alerting ? .ringing : .placed))
    #expect(state?.deadline == Timestamp(microseconds: (wallSeconds + 32) * 1_000_000))
    #expect(deliveries.count == 1)
    guard case .invite(let invite)? = deliveries.first?.event else {
      Issue.record("no invite: \(deliveries)")
      return
    }
    #expect(invite.caller.user == "ann" && invite.deadline == state?.deadline)
  }

  @Test func answeredElsewhere() async throws {
    var story = Story()
    story.place()
    story.tabletSays(.call(call, .answer(description: "")))
    try await expectEnd(story, .answeredElsewhere, by: "tablet")
  }

  /// Whatever became of the other device's call.
  @Test func answeredElsewhereAndEnded() async throws {
    var story = Story()
    story.place()
    story.tabletSays(.call(call, .answer(description: "")))
    story.callersCommand(.call(call, .hangUp))
    try await expectEnd(story, .answeredElsewhere, by: "tablet")
  }

  @Test func declined() async throws {
    var story = Story()
    story.place()
    story.tabletSays(.call(call, .decline(.everywhere)))
    try await expectEnd(story, .declined, by: "tablet")
  }

  @Test func cancelled() async throws {
    var story = Story()
    story.place()
    story.callersCommand(.call(call, .cancel))
    try await expectEnd(story, .cancelled, by: "ann-phone", missed: true)
  }

  @Test func unanswered() async throws {
    var story = Story()
    story.place()
    try await expectEnd(story, .unanswered, by: nil, missed: true, after: .seconds(40))
  }

  /// Ten minutes after its end, no node knows any longer why it ended.
  @Test(arguments: [(599, true), (601, false)]) func forgotten(seconds: Int64, known: Bool)
    async throws
  {
    var story = Story()
    story.place()
    story.callersCommand(.call(call, .cancel))
    let (state, deliveries) = try await attach(story, after: .seconds(story.seconds + seconds))
    #expect(state?.phase == (known ? .ended : .unknown))
    #expect(state?.reason == (known ? .cancelled : nil))
    #expect(deliveries.isEmpty)
  }

  @Test func neverHeardOf() async throws {
    var story = Story()
    story.place()
    let other = CallID(high: 7, low: 10)
    let (state, deliveries) = try await attach(story, forCall: other)
    #expect(state?.phase == .unknown && state?.call == other)
    // The one that rings is notified all the same.
    #expect(deliveries.count == 1 && deliveries.first?.call == call)
  }

  /// Said by the push's capability, before the app was up; a repeat says the same.
  @Test func itDeclinedItselfByHTTP() async throws {
    var story = Story()
    story.place()
    var answers: [String] = []
    let (state, deliveries) = try await attach(story) { edge in
      let text = try #require(edge.pushKeys.current).mint(
        .init(
          app: "demo", user: "bob", device: "phone", call: call.bytes, expires: wallSeconds + 60))
      let client = try await edge.client()
      for _ in 0..<3 {
        let answer = try await client.request(
          "POST", "/v1/calls/bob/\(call)/decline", headers: ["Authorization: CallmeshPush \(text)"])
        #expect(answer.status == 200)
        answers.append(answer.text)
      }
    }
    #expect(Set(answers).count == 1)
    #expect(answers.first?.contains(#""reason":"declined""#) == true)
    #expect(state?.phase == .ended && state?.reason == .declined)
    #expect(state?.by?.device == "phone")
    #expect(deliveries.isEmpty)
  }

  /// The others ring on; this one is not asked again.
  @Test(arguments: ["decline", "busy"]) func itLeftByHTTP(action: String) async throws {
    var story = Story()
    story.place()
    var answers: [String] = []
    let (state, deliveries) = try await attach(story) { edge in
      let text = try #require(edge.pushKeys.current).mint(
        .init(
          app: "demo", user: "bob", device: "phone", call: call.bytes, expires: wallSeconds + 60))
      let client = try await edge.client()
      for _ in 0..<2 {
        let answer = try await client.request(
          "POST", "/v1/calls/bob/\(call)/\(action)",
          body: #"{"scope":"here","capability":"\#(text)"}"#)
        answers.append(answer.text)
      }
    }
    #expect(Set(answers).count == 1)
    #expect(state?.phase == .ended)
    #expect(state?.reason == (action == "busy" ? .busy : .declined))
    #expect(deliveries.isEmpty)
  }

  /// It had left by itself: that stays its end, whatever became of the call.
  @Test(arguments: [
    (Command.Body.call(call, .decline(.here)), EndReason.declined), (.call(call, .busy), .busy),
  ])
  func itLeftAndTheCallWentOn(said: Command.Body, reason: EndReason) async throws {
    for later in [
      Command.Body.call(call, .answer(description: "")), .call(call, .decline(.everywhere)),
      .call(call, .hangUp),
    ] {
      var story = Story()
      story.place()
      let first = story.say(bob, "phone", said, session: 0)
      story.tabletSays(.call(call, .alerting))
      if case .call(_, .hangUp) = later { story.tabletSays(.call(call, .answer(description: ""))) }
      story.tabletSays(later)
      let again = story.say(bob, "phone", said, session: 0)
      for case .call(let state)? in [first, again] {
        #expect(state.phase == .ended && state.reason == reason && !state.missed)
      }
      let (state, deliveries) = try await attach(story)
      #expect(state?.phase == .ended && state?.reason == reason)
      #expect(deliveries.isEmpty)
    }
  }

  /// It had left while it rang, and comes back because of a push: it rings.
  @Test func itLeftAndComesBack() async throws {
    var story = Story()
    story.place()
    _ = story.say(bob, "phone", .attach(Attach()), session: 3)
    _ = story.say(bob, "phone", .sessionClosed(graceful: true), session: 3)
    let (state, deliveries) = try await attach(story)
    #expect(state?.phase == .placed)
    #expect(deliveries.count == 1)
  }
}
