import CallCore
import TestSupport
import Testing

/// A small call in all orders. Whatever reaches its shard once, twice or late, and whoever owns it then: one device has
/// each side, a device that is notified that it won has it in the journal, and no device is notified of another story.
/// `docs/simulation.md` has the numbers.
@Suite struct SmallCallTests {
  typealias Line = SmallCallWorld.Line

  static let answer = CallVerb.answer(description: "answer")
  static func pull(_ from: String) -> CallVerb { .pull(PullRequest(from: DeviceID(from))) }

  private static func story(_ name: String, _ lines: Line...) -> (name: String, lines: [Line]) {
    (name, lines)
  }

  static let stories = [
    story(
      "both answer, one declines, and it ends on both sides",
      Line("bob", "b1", answer), Line("bob", "b2", answer), Line("bob", "b2", .decline(.here)),
      Line("alice", "alice1", .cancel), Line("bob", "b1", .hangUp)),
    story(
      "it is declined for all, and answered late",
      Line("bob", "b1", answer), Line("bob", "b2", .decline(.everywhere)),
      Line("bob", "b1", .connected), Line("alice", "alice1", .hangUp)),
    story(
      "it is pulled to and fro, and both answer",
      Line("bob", "b1", answer), Line("bob", "b2", pull("b1")), Line("bob", "b1", pull("b2")),
      Line("bob", "b2", answer), Line("bob", "b1", .hangUp)),
    story(
      "both sides move, and the former devices act late",
      Line("bob", "b1", answer), Line("bob", "b2", pull("b1")),
      Line("alice", "alice2", pull("alice1")), Line("alice", "alice1", .hangUp),
      Line("bob", "b1", .connected)),
    story(
      "the callee hands it over, and pulls it meanwhile",
      Line("bob", "b1", answer), Line("bob", "b1", .handOver(to: "carol")),
      Line("carol", "1", answer), Line("bob", "b2", pull("b1")), Line("bob", "b1", .hangUp)),
    story(
      "the caller hands it over, takes that back, and hangs up",
      Line("bob", "b1", answer), Line("alice", "alice1", .handOver(to: "carol")),
      Line("carol", "1", answer), Line("alice", "alice1", .cancelTransfer),
      Line("alice", "alice1", .hangUp)),
  ]

  @Test(arguments: stories.indices) func inAllOrders(index: Int) {
    let (name, lines) = Self.stories[index]
    let found = SmallCallExplorer(SmallCallWorld(lines), steps: Proof.isOn ? 7 : 5)
    print("small call, \(name): \(found.states) states")
    #expect(found.violation == nil, "\(name)")
  }

  @Test(arguments: [
    (SmallCallWorld.Sabotage.confirmsEveryAnswer, 0, "one winner"),
    (.losesTheLastRecord, 0, "one winner"), (.endsForTheWinner, 2, "one story"),
  ])
  func aMistakeIsFound(sabotage: SmallCallWorld.Sabotage, index: Int, rule: String) {
    let world = SmallCallWorld(Self.stories[index].lines, sabotage: sabotage)
    let found = SmallCallExplorer(world, steps: 4)
    #expect(found.violation?.hasPrefix(rule) == true, "\(found.violation ?? "nothing")")
  }
}
