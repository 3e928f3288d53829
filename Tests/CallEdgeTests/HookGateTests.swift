import CallCore
import CallEdge
import Testing

private let start = Timestamp(microseconds: 1_000_000_000)

/// Whether an app's hook is asked.
@Suite struct HookGateTests {
  private func ask(_ gate: inout HookGate, at now: Timestamp = start) -> HookGate.Permit? {
    if case .ask(let permit) = gate.admit(now: now) { permit } else { nil }
  }

  private func fail(
    _ gate: inout HookGate, times: Int = 1, at now: Timestamp = start
  ) throws -> HookGate.Change? {
    var change: HookGate.Change?
    for _ in 0..<times {
      let permit = try #require(ask(&gate, at: now))
      change = gate.settle(permit, isAnswered: false, now: now)
    }
    return change
  }

  /// A gate whose hook went away at the start.
  private func away() throws -> HookGate {
    var gate = HookGate()
    #expect(try fail(&gate, times: HookGate.failuresMax) == .wentAway)
    return gate
  }

  @Test func aHookThatAnswersIsAlwaysAsked() throws {
    var gate = HookGate()
    for _ in 0..<1000 {
      let permit = try #require(ask(&gate))
      #expect(gate.outstanding == 1)
      #expect(gate.settle(permit, isAnswered: true, now: start) == nil)
    }
    #expect(gate.outstanding == 0 && !gate.isAway)
  }

  @Test func soManyMayWait() throws {
    var gate = HookGate()
    var permits: [HookGate.Permit] = []
    for _ in 0..<HookGate.outstandingMax { permits.append(try #require(ask(&gate))) }
    #expect(gate.admit(now: start) == .skip(.full))
    #expect(gate.outstanding == HookGate.outstandingMax && !gate.isAway)
    #expect(gate.settle(permits[0], isAnswered: true, now: start) == nil)
    #expect(ask(&gate) != nil)
    #expect(gate.admit(now: start) == .skip(.full))
  }

  @Test func onlyFailuresInARowCount() throws {
    var gate = HookGate()
    for _ in 0..<10 {
      #expect(try fail(&gate, times: HookGate.failuresMax - 1) == nil)
      let permit = try #require(ask(&gate))
      #expect(gate.settle(permit, isAnswered: true, now: start) == nil)
    }
    #expect(!gate.isAway)
    #expect(try fail(&gate, times: HookGate.failuresMax) == .wentAway)
    #expect(gate.isAway)
  }

  @Test func whileItIsAwayNobodyAsks() throws {
    var gate = try away()
    for milliseconds in stride(from: Int64(0), to: 5000, by: 100) {
      #expect(gate.admit(now: start + .milliseconds(milliseconds)) == .skip(.away))
    }
    #expect(gate.outstanding == 0)
  }

  @Test func thenOneCallTries() throws {
    var gate = try away()
    let later = start + HookGate.pause
    let permit = try #require(ask(&gate, at: later))
    #expect(gate.admit(now: later) == .skip(.away))
    #expect(gate.admit(now: later + .seconds(3600)) == .skip(.away))
    #expect(gate.settle(permit, isAnswered: true, now: later) == .cameBack)
    #expect(!gate.isAway)
    // As if nothing had been: one failure is none.
    #expect(try fail(&gate, at: later) == nil)
    #expect(ask(&gate, at: later) != nil)
  }

  @Test func whereItFailsAgainAnotherPauseBegins() throws {
    var gate = try away()
    var now = start
    for _ in 0..<10 {
      now = now + HookGate.pause
      let permit = try #require(ask(&gate, at: now))
      // News of a hook that was away before are none.
      #expect(gate.settle(permit, isAnswered: false, now: now) == nil)
      #expect(gate.isAway)
      #expect(gate.admit(now: now + .milliseconds(4999)) == .skip(.away))
    }
  }

  /// Questions that were asked before it went away, and end while it is away or tried.
  @Test func oldQuestionsSayNothing() throws {
    var gate = HookGate()
    let old = try (0..<10).map { _ in try #require(ask(&gate)) }
    #expect(try fail(&gate, times: HookGate.failuresMax) == .wentAway)
    #expect(gate.settle(old[0], isAnswered: true, now: start) == nil)
    #expect(gate.settle(old[1], isAnswered: false, now: start + .seconds(4)) == nil)
    // Neither ends nor prolongs the pause.
    #expect(gate.admit(now: start + .milliseconds(4999)) == .skip(.away))
    let later = start + HookGate.pause
    let probe = try #require(ask(&gate, at: later))
    #expect(gate.settle(old[2], isAnswered: true, now: later) == nil)
    #expect(gate.settle(old[3], isAnswered: false, now: later) == nil)
    #expect(gate.admit(now: later) == .skip(.away))
    #expect(gate.settle(probe, isAnswered: true, now: later) == .cameBack)
    for permit in old[4...] {
      #expect(gate.settle(permit, isAnswered: false, now: later) == nil)
    }
    #expect(!gate.isAway && gate.outstanding == 0)
  }

  @Test func theTryHoldsTheLimitToo() throws {
    var gate = HookGate()
    let old = try (0..<HookGate.outstandingMax).map { _ in try #require(ask(&gate)) }
    for permit in old.prefix(HookGate.failuresMax) {
      _ = gate.settle(permit, isAnswered: false, now: start)
    }
    #expect(gate.isAway)
    let later = start + HookGate.pause
    #expect(ask(&gate, at: later) != nil)
    #expect(gate.outstanding == HookGate.outstandingMax - HookGate.failuresMax + 1)
  }

  @Test func withOtherSettingsItIsAskedAtOnce() throws {
    var gate = try away()
    gate.restart()
    #expect(!gate.isAway)
    let permit = try #require(ask(&gate))
    gate.restart()
    // It was another hook's failure, but its place is free again.
    for _ in 0..<HookGate.failuresMax {
      #expect(gate.settle(permit, isAnswered: false, now: start) == nil)
    }
    #expect(!gate.isAway && gate.outstanding == 0)
  }

  /// Whatever comes: as many wait as were asked and not settled, never more than may, and while the hook is away one
  /// at most is asked in each pause.
  @Test(arguments: 1...50) func atRandom(seed: UInt64) throws {
    var state = seed
    func random(_ bound: UInt64) -> UInt64 {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return (state >> 33) % bound
    }
    var gate = HookGate()
    var now = start
    var open: [HookGate.Permit] = []
    var askedWhileAway: Timestamp?
    for _ in 0..<2000 {
      now = now + .milliseconds(Int64(random(200)))
      if random(2) == 0 {
        let wasAway = gate.isAway
        switch gate.admit(now: now) {
        case .ask(let permit):
          if wasAway {
            if let last = askedWhileAway { #expect(last + HookGate.pause <= now) }
            askedWhileAway = now
          }
          open.append(permit)
        case .skip(.away): #expect(wasAway)
        case .skip(.full): #expect(open.count >= HookGate.outstandingMax)
        }
      } else if !open.isEmpty {
        let permit = open.remove(at: Int(random(UInt64(open.count))))
        let wasAway = gate.isAway
        let change = gate.settle(permit, isAnswered: random(4) == 0, now: now)
        #expect((change == .wentAway) == (!wasAway && gate.isAway))
        #expect((change == .cameBack) == (wasAway && !gate.isAway))
        if !gate.isAway { askedWhileAway = nil }
      }
      #expect(gate.outstanding == open.count && open.count <= HookGate.outstandingMax)
    }
  }
}
