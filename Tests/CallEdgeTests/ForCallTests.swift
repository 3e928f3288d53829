import CallCore
import CallEdge
import CallWire
import Synchronization
import Testing

private let call = CallID(high: 7, low: 9)

/// ann calls bob, whose tablet rings. Commands, in order, bring about the events before bob's phone has woken up, each a
/// second after the one before.
struct Story {
  let shards = RealShards()
  var seconds: Int64 = 0

  init(_ events: [Event] = []) {
    say(bob, "tablet", 2, .attach(Attach(deviceName: "Bob's tablet")))
    say(ann, "ann-phone", 1, .place(PlaceRequest(call: call)))
    for event in events {
      switch event {
      case .caller(let verb): say(ann, "ann-phone", 1, .call(call, verb))
      case .tablet(let verb): say(bob, "tablet", 2, .call(call, verb))
      case .phone(let body): say(bob, "phone", 3, body)
      }
    }
  }

  enum Event {
    case caller(CallVerb)
    case tablet(CallVerb)
    case phone(Command.Body)
  }

  private mutating func say(
    _ user: UserKey, _ device: DeviceID, _ session: UInt64, _ body: Command.Body
  ) {
    seconds += 1
    let command = Command(
      session: SessionRef(edge: 1, number: session), request: UInt64(seconds), user: user,
      device: device, callee: bob, body: body)
    _ = shards.handle(command, after: .seconds(seconds))
  }
}

/// A device that attaches because of a push for a call gets exactly one of six answers (R5); the rules themselves answer,
/// behind a real edge.
@Suite struct ForCallTests {
  /// Attaches bob's phone for a call. Returns the state that it is answered, and the deliveries that come with it.
  private func attach(
    _ story: Story, after: Span? = nil, forCall: CallID = call
  ) async throws -> (state: CallState?, deliveries: [Delivery]) {
    var result: (CallState?, [Delivery]) = (nil, [])
    let shards = story.shards
    let moment = after ?? .seconds(story.seconds + 1)
    try await EdgeFixture.run { edge in
      let fake = edge.shards
      fake.follow { command in
        guard command.user.app == "demo" else { return .done }
        let (reply, deliveries) = shards.handle(command, after: moment)
        let session = command.session
        var items = reply.map {
          [EdgeItem(session: session.number, body: .reply(request: command.request, $0))]
        }
        for (to, delivery) in deliveries where to.edge == session.edge {
          items = (items ?? []) + [EdgeItem(session: to.number, body: .delivery(delivery))]
        }
        if let items { fake.say(items, to: session.edge) }
        return nil
      }
      let client = try await edge.socket()
      let token = try edge.token("bob", device: "phone")
      result.0 = try await client.attach(AttachRequest(token: token, forCall: forCall)).forCall
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

  @Test(arguments: [false, true]) func itStillRings(alerting: Bool) async throws {
    let story = Story(alerting ? [.tablet(.alerting)] : [])
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

  /// Ten minutes after its end, no node knows any longer why it ended.
  @Test(
    arguments: [
      ([.tablet(.answer(description: ""))], nil, .answeredElsewhere, "tablet", false),
      // Whatever became of the other device's call.
      (
        [.tablet(.answer(description: "")), .caller(.hangUp)], nil, .answeredElsewhere, "tablet",
        false
      ),
      ([.tablet(.decline(.everywhere))], nil, .declined, "tablet", false),
      ([.caller(.cancel)], .seconds(3 + 599), .cancelled, "ann-phone", true),
      ([.caller(.cancel)], .seconds(3 + 601), nil, nil, false),
      ([], .seconds(40), .unanswered, nil, true),
    ] as [([Story.Event], Span?, EndReason?, DeviceID?, Bool)])
  func itRingsNoLonger(
    events: [Story.Event], after: Span?, reason: EndReason?, by: DeviceID?, missed: Bool
  ) async throws {
    let (state, deliveries) = try await attach(Story(events), after: after)
    #expect(state?.phase == (reason == nil ? .unknown : .ended))
    #expect(state?.reason == reason && state?.by?.device == by)
    #expect(state?.missed == missed && state?.call == call)
    #expect(deliveries.isEmpty)
  }

  @Test func neverHeardOf() async throws {
    let other = CallID(high: 7, low: 10)
    let (state, deliveries) = try await attach(Story(), forCall: other)
    #expect(state?.phase == .unknown && state?.call == other)
    // The one that rings is notified all the same.
    #expect(deliveries.count == 1 && deliveries.first?.call == call)
  }

  /// It had left while it rang, and comes back because of a push: it rings.
  @Test func itLeftAndComesBack() async throws {
    let story = Story([.phone(.attach(Attach())), .phone(.sessionClosed(graceful: true))])
    let (state, deliveries) = try await attach(story)
    #expect(state?.phase == .placed)
    #expect(deliveries.count == 1)
  }
}

/// The rules themselves behind an edge: one shard for all users, whose journal takes everything at
/// once.
final class RealShards: Sendable {
  private let machine: Mutex<ShardMachine>

  init() {
    var machine = ShardMachine(shard: 0, epoch: 1, limits: CallLimits())
    var outcome = Outcome()
    machine.begin(now: Timestamp(microseconds: wallSeconds * 1_000_000), into: &outcome)
    self.machine = Mutex(machine)
  }

  /// Handles a command as if it came so long after the test began.
  /// - Returns: its reply, and what is sent to sessions.
  func handle(
    _ command: Command, after: Span = .seconds(1)
  ) -> (reply: Reply?, deliveries: [(SessionRef, Delivery)]) {
    machine.withLock { machine in
      var outcome = Outcome()
      let now = Timestamp(microseconds: wallSeconds * 1_000_000) + after
      machine.fire(now: now, into: &outcome)
      machine.handle(command, now: now, into: &outcome)
      var reply: Reply?
      var deliveries: [(SessionRef, Delivery)] = []
      var effects = outcome.effects
      while !effects.isEmpty {
        switch effects.removeFirst() {
        case .reply(command.session, command.request, let said): reply = said
        case .deliver(let session, let delivery): deliveries.append((session, delivery))
        case .store(_, let token), .remove(_, _, let token):
          var stored = Outcome()
          machine.registrationStored(token: token, ok: true, now: now, into: &stored)
          effects += stored.effects
        default: break
        }
      }
      return (reply, deliveries)
    }
  }
}
