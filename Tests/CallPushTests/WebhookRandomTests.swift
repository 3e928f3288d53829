import CallCore
import CallPush
import Testing

/// Random schedules of calls, failures and gateways that die, against what must hold: nothing is lost, nothing is
/// invented, and each call's events come in order.
@Suite struct WebhookRandomTests {
  private static let kinds: [AppEventKind] = [.placed, .ringing, .answered, .ended]

  @Test(arguments: 0..<80) func nothingIsLostInventedOrOutOfOrder(seed: UInt64) {
    var chance = SplitMix64(seed: seed)
    var bench = WebhookBench()
    // How many events of each call are in the stream.
    var stored: [UInt64: Int] = [:]
    let failing = [0, 20, 60, 100][Int(seed % 4)]
    // A call whose events are refused for ever.
    let bad: UInt64 = 3

    func answerOne() {
      guard let post = bench.posts.randomElement(using: &chance) else { return }
      let fails = post.event.call.low == bad || chance.percent(UInt64(failing))
      bench.answer(WebhookBench.name(post.event), failure: fails ? "status 500" : nil)
      bench.buryAll()
    }
    for _ in 0..<300 {
      switch chance.next() % 10 {
      case 0...3:
        let call = chance.next() % 12
        let from = stored[call, default: 0]
        // A new owner repeats all that there is.
        let first = chance.percent(20) ? 0 : from
        let end = min(Self.kinds.count, from + Int(chance.next() % 3))
        guard first < end else { continue }
        stored[call] = end
        bench.store(Self.kinds[first..<end].map { WebhookBench.event(call, $0) })
      case 4...7: answerOne()
      case 8: bench.pass(.milliseconds(Int64(chance.next() % 60_000)))
      default: if chance.percent(20) { bench.takeOver() }
      }
    }
    // The webhook takes everything but the bad call's events, for longer than these are retried.
    for _ in 0..<(5 * 27 * 12) where bench.machine.openCount > 0 {
      while let post = bench.posts.first {
        let fails = post.event.call.low == bad
        bench.answer(WebhookBench.name(post.event), failure: fails ? "status 500" : nil)
      }
      bench.pass(.seconds(300))
      bench.buryAll()
    }
    judge(bench, stored, bad: bad)
  }

  private func judge(_ bench: WebhookBench, _ stored: [UInt64: Int], bad: UInt64) {
    #expect(bench.machine.openCount == 0 && bench.posts.isEmpty)
    for (call, count) in stored {
      let wanted = Self.kinds.prefix(count).map { "\(call) \($0.name)" }
      // A gateway that takes over may repeat: the first of each counts.
      var heard: [String] = []
      for name in bench.delivered where name.hasPrefix("\(call) ") && !heard.contains(name) {
        heard.append(name)
      }
      if call == bad {
        #expect(heard.isEmpty)
        #expect(Set(bench.dead).isSuperset(of: wanted))
      } else {
        #expect(heard == wanted)
      }
    }
    let all = Set(
      stored.flatMap { call, count in Self.kinds.prefix(count).map { "\(call) \($0.name)" } })
    #expect(all.isSuperset(of: bench.delivered) && all.isSuperset(of: bench.dead))
  }
}

extension SplitMix64 {
  fileprivate mutating func percent(_ limit: UInt64) -> Bool { next() % 100 < limit }
}
