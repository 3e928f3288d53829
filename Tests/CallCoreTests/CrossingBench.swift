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
    alice.home = "alice"
    for device in ["alice1", "alice2", "b1", "b2"] { attach(device) }
  }

  private mutating func attach(_ device: String) {
    let body = Command.Body.attach(Attach(deviceName: device))
    if device.hasPrefix("alice") {
      alice.say(body, device: device)
    } else {
      bob.say(body, device: device)
    }
  }

  static func placed() -> CrossingBench {
    var bench = CrossingBench()
    bench.placeBoth()
    return bench
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
    let request = PlaceRequest(call: bobCall, description: "bob's offer", deviceName: "b1")
    bobsCaller(.place(request))
    collect()
  }

  /// Says something to alice's shard, as bob's device that placed the call.
  @discardableResult
  mutating func bobsCaller(_ body: Command.Body, session: SessionRef? = nil) -> Reply? {
    alice.say(body, user: "bob", device: "b1", session: session)
  }

  var aliceSurvives: Bool {
    Crossing.survives(aliceCall, caller: "alice", over: bobCall, caller: "bob")
  }

  // MARK: Edges

  /// Two things that edges notice: the call that gives way, and the device that takes the other one.
  var crossed: CrossedCall {
    aliceSurvives
      ? CrossedCall(call: bobCall, caller: "bob", survivor: aliceCall, by: "alice1")
      : CrossedCall(call: aliceCall, caller: "alice", survivor: bobCall, by: "b1")
  }

  /// Reports to the shard of the call that gives way, as the edge of a device that placed one of the calls does.
  mutating func report(fromBobs: Bool) {
    let (user, device) = fromBobs ? ("bob", "b1") : ("alice", "alice1")
    if aliceSurvives {
      alice.say(.crossed(crossed), user: user, device: device)
    } else {
      bob.say(.crossed(crossed), user: user, device: device)
    }
    collect()
  }

  /// An edge reports, and the shards settle it.
  mutating func settle() {
    report(fromBobs: true)
    deliverAll()
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
    for device in bobs ? ["b1", "b2"] : ["alice1", "alice2"] {
      next.say(.attach(Attach(deviceName: device, announce: true)), device: device)
    }
    let (call, user, device) = bobs ? (aliceCall, "alice", "alice1") : (bobCall, "bob", "b1")
    next.say(.call(call, .resume), user: user, device: device, number: 0)
    next.run { $0.begin(now: $1, into: &$2) }
    if bobs { bob = next } else { alice = next }
    collect()
  }

  // MARK: The calls, as who placed them sees them

  mutating func stateOfAlicesCall() -> CallState? { bob.caller(.call(aliceCall, .query))?.state }
  mutating func stateOfBobsCall() -> CallState? { bobsCaller(.call(bobCall, .query))?.state }
}
