import CallCore
import Testing

/// Two users who call each other, and their two shards. Alice has the devices `alice1` and `alice2`, bob has `b1` and
/// `b2`; `alice1` and `b1` place the calls.
struct CrossingBench {
  static let low = CallID(high: 0, low: 1)
  static let high = CallID(high: 0, low: 2)

  /// The shard of alice, with bob's call to her.
  var alice = Bench()
  /// The shard of bob, with alice's call to him.
  var bob = Bench()
  let aliceCall: CallID
  let bobCall: CallID
  /// The commands that the shards have sent to each other and that are still under way.
  private(set) var messages: [(toBob: Bool, Command)] = []
  private var number: UInt64 = 0

  /// - Parameter aliceIsLow: alice's call has the lower id, so it goes on.
  init(aliceIsLow: Bool = true) {
    aliceCall = aliceIsLow ? Self.low : Self.high
    bobCall = aliceIsLow ? Self.high : Self.low
    attach()
  }

  init(sameID: CallID) {
    (aliceCall, bobCall) = (sameID, sameID)
    attach()
  }

  private mutating func attach() {
    for device in ["alice1", "alice2"] { attach(device) }
    for device in ["b1", "b2"] { attach(device) }
  }

  mutating func attach(_ device: String, announce: Bool = false) {
    let body = Command.Body.attach(Attach(deviceName: device, announce: announce))
    if device.hasPrefix("alice") {
      alice.say(body, user: "alice", device: device, callee: "alice")
    } else {
      bob.say(body, user: "bob", device: device, callee: "bob")
    }
  }

  mutating func placeBoth() {
    placeAlice()
    placeBob()
  }

  mutating func placeAlice() {
    bob.place(aliceCall, description: "alice's offer")
    collect()
  }

  mutating func placeBob() {
    alice.say(
      .place(PlaceRequest(call: bobCall, description: "bob's offer", deviceName: "b1")),
      user: "bob", device: "b1", callee: "alice")
    collect()
  }

  var aliceSurvives: Bool {
    Crossing.survives(aliceCall, caller: "alice", over: bobCall, caller: "bob")
  }

  // MARK: Edges

  /// Reports to the shard of the call that gives way, as the edge of a device that placed one of the calls does.
  @discardableResult
  mutating func report(fromBobs: Bool) -> Reply? {
    defer { collect() }
    if aliceSurvives {
      let crossed = CrossedCall(call: bobCall, caller: "bob", survivor: aliceCall, by: "alice1")
      return fromBobs
        ? alice.say(.crossed(crossed), user: "bob", device: "b1", callee: "alice")
        : alice.say(.crossed(crossed), user: "alice", device: "alice1", callee: "alice")
    }
    let crossed = CrossedCall(call: aliceCall, caller: "alice", survivor: bobCall, by: "b1")
    return fromBobs
      ? bob.say(.crossed(crossed), user: "bob", device: "b1", callee: "bob")
      : bob.say(.crossed(crossed), user: "alice", device: "alice1", callee: "bob")
  }

  // MARK: Between the shards

  /// Collects the messages that the shards have sent each other since.
  mutating func collect() {
    for (effects, isAlices) in [(alice.effects, true), (bob.effects, false)] {
      for case .tell(let user, let device, let body, _) in effects {
        number += 1
        let command = Command(
          session: SessionRef(edge: 99, number: number), request: number, user: user,
          device: device, callee: user, body: body)
        messages.append((isAlices, command))
      }
    }
    // The rest stays for the test to look at.
    alice.effects.removeAll { if case .tell = $0 { true } else { false } }
    bob.effects.removeAll { if case .tell = $0 { true } else { false } }
  }

  /// Delivers a message. It may be delivered again.
  mutating func deliver(_ index: Int = 0, keeping: Bool = false) {
    let (toBob, command) = messages[index]
    if !keeping { messages.remove(at: index) }
    if toBob {
      bob.run { $0.handle(command, now: $1, into: &$2) }
    } else {
      alice.run { $0.handle(command, now: $1, into: &$2) }
    }
    collect()
  }

  mutating func lose(_ index: Int = 0) { messages.remove(at: index) }

  mutating func deliverAll() {
    while !messages.isEmpty { deliver() }
  }

  /// A new owner of a shard, to which its devices are announced.
  mutating func takeOver(bobs: Bool, epoch: UInt64) {
    var next = (bobs ? bob : alice).takenOver(epoch: epoch)
    next.effects = []
    if bobs { bob = next } else { alice = next }
    for device in bobs ? ["b1", "b2"] : ["alice1", "alice2"] { attach(device, announce: true) }
    let resume = Command.Body.call(bobs ? aliceCall : bobCall, .resume)
    if bobs {
      bob.say(resume, user: "alice", device: "alice1", callee: "bob", number: 0)
      bob.run { $0.begin(now: $1, into: &$2) }
    } else {
      alice.say(resume, user: "bob", device: "b1", callee: "alice", number: 0)
      alice.run { $0.begin(now: $1, into: &$2) }
    }
    collect()
  }
}

extension Bench {
  /// A call as its caller sees it.
  mutating func state(_ call: CallID, caller: String, _ device: String, callee: String)
    -> CallState?
  {
    say(.call(call, .query), user: caller, device: device, callee: callee)?.state
  }
}

extension CrossingBench {
  mutating func stateOfAlicesCall() -> CallState? {
    bob.state(aliceCall, caller: "alice", "alice1", callee: "bob")
  }
  mutating func stateOfBobsCall() -> CallState? {
    alice.state(bobCall, caller: "bob", "b1", callee: "alice")
  }
}
