import CallCore
import Testing

/// R8 in every order: what two shards, their edges and four devices may do while two calls cross, by chance.
@Suite struct CrossingRunTests {
  private struct Run {
    var bench: CrossingBench
    var random: SplitMix64
    var isReported = false
    /// Somebody answered, cancelled or declined.
    var isDisturbed = false
    var epoch: UInt64 = 1

    init(seed: UInt64) {
      random = SplitMix64(seed: seed)
      bench = CrossingBench(aliceIsLow: random.next() % 2 == 0)
    }

    mutating func step() {
      switch random.next() % 16 {
      case 0...3:
        bench.report(fromBobs: random.next() % 2 == 0)
        isReported = true
      case 4...7:
        guard !bench.messages.isEmpty else { return }
        let index = Int(random.next() % UInt64(bench.messages.count))
        bench.deliver(index, keeping: random.next() % 2 == 0)
      case 8:
        epoch += 1
        bench.takeOver(bobs: random.next() % 2 == 0, epoch: epoch)
      case 9: disturb()
      case 10:
        let span = Span.milliseconds(Int64(random.next() % 1500))
        bench.alice.pass(span)
        bench.bob.pass(span)
        bench.collect()
      default: break
      }
    }

    private mutating func disturb() {
      isDisturbed = true
      switch random.next() % 6 {
      case 0: bench.bob.say(.call(bench.aliceCall, .answer()), device: "b2")
      case 1: bench.alice.say(.call(bench.bobCall, .answer()), device: "alice2")
      case 2: bench.bob.caller(.call(bench.aliceCall, .cancel))
      case 3: bench.bobsCaller(.call(bench.bobCall, .cancel))
      case 4: bench.bob.say(.call(bench.aliceCall, .decline(.here)), device: "b1")
      default: bench.alice.say(.call(bench.bobCall, .decline(.everywhere)), device: "alice2")
      }
    }

    mutating func judge(_ seed: UInt64) {
      // The edges report again when an invite is repeated, and what the shards tell each other arrives.
      bench.report(fromBobs: true)
      bench.deliverAll()
      bench.report(fromBobs: false)
      bench.deliverAll()
      let ends = bench.alice.ends + bench.bob.ends
      let answers = (bench.alice.journal + bench.bob.journal).count {
        if case .answered = $0.change { true } else { false }
      }
      #expect(ends.count { $0.reason == .glare } <= 1, "both calls gave way; seed \(seed)")
      // Unless both cancelled before anybody noticed.
      let isNoticed = ends.contains { $0.reason == .glare }
      #expect(!isNoticed || ends.count { $0.missed } <= 1, "two missed calls; seed \(seed)")
      let (alices, bobs) = (bench.stateOfAlicesCall(), bench.stateOfBobsCall())
      let live = [alices, bobs].compactMap(\.self).filter { $0.phase != .ended }
      // Two answers are of two people, within the time that a report takes.
      #expect(live.count <= 1 || answers == 2, "two calls go on; seed \(seed)")
      guard !isDisturbed else { return }
      let (survivor, other) = bench.aliceSurvives ? (alices, bobs) : (bobs, alices)
      #expect(survivor?.phase == .answered, "\(String(describing: survivor)); seed \(seed)")
      #expect(survivor?.by?.device == (bench.aliceSurvives ? "b1" : "alice1"), "seed \(seed)")
      #expect(other?.reason == .glare, "seed \(seed)")
      #expect(answers == 1, "seed \(seed)")
    }
  }

  @Test("R8: whatever the order, one call goes on, and one is missed at most") func r8AnyOrder() {
    for seed in UInt64(0)..<4000 {
      var run = Run(seed: seed)
      run.bench.placeBoth()
      for _ in 0..<12 { run.step() }
      run.judge(seed)
    }
  }
}
