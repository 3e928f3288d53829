import CallNodeKit
import Synchronization
import Testing

/// A node does not outlive its bus, and says why it ends.
@Suite(.timeLimit(.minutes(1))) struct BusWatchTests {
  private func run(_ watch: BusWatch) async -> String {
    do {
      try await watch.run()
      return ""
    } catch {
      return "\(error)"
    }
  }

  @Test(arguments: [true, false]) func aBusThatIsOverEndsTheNode(before: Bool) async {
    let reported = Mutex<[String]>([])
    let watch = BusWatch { reason in reported.withLock { $0.append(reason) } }
    watch.failed("a slow consumer")
    watch.failed("Authorization Violation")
    if before { watch.hasClosed() }
    async let end = run(watch)
    if !before { watch.hasClosed() }
    #expect(await end.contains("for good: Authorization Violation"))
    #expect(reported.withLock { $0 } == ["Authorization Violation"])
  }

  @Test func complaintsEndNothing() async {
    let reported = Mutex<[String]>([])
    let watch = BusWatch { reason in reported.withLock { $0.append(reason) } }
    await withTaskGroup(of: String.self) { group in
      group.addTask { await run(watch) }
      watch.failed("a slow consumer")
      group.cancelAll()
      #expect(await group.next() == "")
    }
    // Events behind its end, such as the node's own closing, are of no interest.
    watch.hasClosed()
    #expect(reported.withLock { $0 }.isEmpty)
  }
}
