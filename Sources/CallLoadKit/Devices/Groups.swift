import CallClient
import CallCore

/// Groups of users, which the fleet makes as the app's server would. Their members are called by calls of the part `group`
/// alone, and place none, since who is in a call is left out. On the fleet's loop.
final class Groups {
  private struct Group {
    var terms: GroupTerms
    /// A call of it is under way.
    var isTaken = false
    /// From when on no member counts as in an earlier call of it.
    var isFreeAt = Timestamp.zero
    /// By member: when the last call ended that the member had.
    var talkedUntil: [Int: Timestamp] = [:]
  }

  private unowned let fleet: DeviceFleet
  private var groups: [Group]
  /// The members of all groups.
  let members: Set<Int>
  /// The groups that the cluster has confirmed.
  private var ready: [Int] = []
  private var open: Set<Int> = []
  private var completion: (() -> Void)?

  /// The first three of so many users.
  private static let every = 16
  private static let size = 3
  private static let turnSeconds: UInt32 = 5
  private static let timeout: Span = .seconds(30)
  /// Who has answered such a call counts as in it for up to 15 s after the end: for so long the shards of other users
  /// remember it. Under faults a device may learn of the end later, and its acknowledgement may be lost.
  private static let rest: Span = .seconds(16)
  private static let restUnderFaults: Span = .seconds(30)

  init(_ fleet: DeviceFleet) {
    self.fleet = fleet
    let isPlayed = fleet.options.scenario.parts.contains { $0.kind == .group && $0.weight > 0 }
    groups = []
    let candidates =
      fleet.options.forwards && isPlayed && fleet.setGroup != nil ? fleet.roster.users : 0
    for first in stride(from: 0, to: candidates - Self.size + 1, by: Self.every) {
      let members = Array(first..<first + Self.size)
      let devices =
        fleet.roster.devices(of: first).lowerBound..<fleet.roster.devices(of: first + 2).upperBound
      // A group is called for what its members do, so all of them have sessions.
      if let sleep = fleet.sleep, devices.contains(where: sleep.sleeps) { continue }
      let order = CallGroup.Order.allCases[groups.count % CallGroup.Order.allCases.count]
      let name = "group-\(fleet.roster.userName(first))"
      groups.append(
        Group(
          terms: GroupTerms(
            name: name, order: order, members: members, turn: .seconds(Int64(Self.turnSeconds)))))
    }
    self.members = Set(groups.flatMap(\.terms.members))
  }

  /// Makes the groups, and waits until the cluster has them.
  func begin(_ completion: @escaping () -> Void) {
    guard let setGroup = fleet.setGroup, !groups.isEmpty, !fleet.isInterrupted else {
      return completion()
    }
    self.completion = completion
    open = Set(groups.indices)
    fleet.loop.schedule(at: fleet.loop.now + Self.timeout) { [weak self] in self?.finish() }
    for index in groups.indices {
      let terms = groups[index].terms
      let group = CallGroup(
        users: terms.members.map(fleet.roster.userName), order: terms.order,
        turnSeconds: Self.turnSeconds)
      setGroup(terms.name, group) { [weak self] error in
        var rules = UserRules()
        rules.group = group
        self?.fleet.tap?.decided(terms.name, rules)
        self?.made(index, error)
      }
    }
  }

  private func made(_ index: Int, _ error: CallError?) {
    guard open.remove(index) != nil else { return }
    if let error { fleet.count("group refused: \(error.code.name)") } else { ready.append(index) }
    if open.isEmpty { finish() }
  }

  private func finish() {
    for _ in open { fleet.count("group: no reply") }
    open = []
    ready.sort()
    completion.take()?()
  }

  // MARK: Calls

  /// A group that can be called now, as a call finds it.
  func draw(at now: Timestamp, _ random: inout SplitMix64) -> GroupTerms? {
    let free = ready.filter { !groups[$0].isTaken && groups[$0].isFreeAt <= now }
    guard let index = free.randomElement(using: &random) else { return nil }
    var terms = groups[index].terms
    guard terms.order == .longestIdle else { return terms }
    let talked = groups[index].talkedUntil
    terms.members = terms.members.enumerated().sorted { one, other in
      let (a, b) = (talked[one.element] ?? .zero, talked[other.element] ?? .zero)
      return a == b ? one.offset < other.offset : a < b
    }.map(\.element)
    return terms
  }

  /// The devices of the members of a group.
  func devices(of terms: GroupTerms) -> Range<Int> {
    let users = terms.members.sorted()
    return fleet.roster.devices(of: users[0])
      .lowerBound..<fleet.roster.devices(of: users[users.count - 1]).upperBound
  }

  func reserve(_ terms: GroupTerms) { change(terms) { $0.isTaken = true } }

  /// The call of a group is over.
  /// - Parameters:
  ///   - member: who answered; nil: no member, as far as devices know.
  ///   - isSettled: whether all devices were notified of the end.
  func release(_ terms: GroupTerms, answeredBy member: Int?, isSettled: Bool, at now: Timestamp) {
    change(terms) {
      $0.isTaken = false
      $0.isFreeAt = now + (fleet.options.isDisturbed ? Self.restUnderFaults : Self.rest)
      if let member { $0.talkedUntil[member] = now }
      if !isSettled { $0.terms.isOrderKnown = false }
    }
  }

  private func change(_ terms: GroupTerms, _ body: (inout Group) -> Void) {
    guard let index = groups.firstIndex(where: { $0.terms.name == terms.name }) else { return }
    body(&groups[index])
  }
}
