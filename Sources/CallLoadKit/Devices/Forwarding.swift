import CallClient
import CallCore
import CallJudge
import CallWire

/// Users whose rules send all calls on to another user. Rules hold for every call to a user, so these are called by
/// calls of the part `forwarded` alone. On the fleet's loop.
final class Forwarding {
  private unowned let fleet: DeviceFleet
  /// Those who send calls on.
  let users: Set<Int>
  /// Those of whom the cluster has said that it has their rules.
  private(set) var ready: [Int] = []
  private var open: Set<Int> = []
  private var completion: (() -> Void)?

  /// One user in so many.
  private static let every = 16
  private static let timeout: Span = .seconds(15)

  init(_ fleet: DeviceFleet) {
    self.fleet = fleet
    let isPlayed = fleet.options.scenario.parts.contains { $0.kind == .forwarded && $0.weight > 0 }
    let candidates = fleet.options.forwards && isPlayed ? 0..<fleet.roster.users : 0..<0
    users = Set(candidates.filter { $0 % Self.every == Self.every - 1 })
  }

  /// The user to whom another one's calls go.
  static func target(of user: Int) -> Int { user - 1 }

  /// Sets the rules of these users, and waits for the replies.
  func begin(_ completion: @escaping () -> Void) {
    guard !users.isEmpty, !fleet.isInterrupted else { return completion() }
    self.completion = completion
    for user in users.sorted() {
      let devices = fleet.devices[fleet.roster.devices(of: user)]
      guard let device = devices.first(where: \.isAttached) else { continue }
      let target = fleet.roster.userName(Self.target(of: user))
      let rules = UserRules(always: UserRules.Forward(users: [target]))
      if device.submit(.rules(.write(rules))) != nil { open.insert(user) }
    }
    fleet.loop.schedule(at: fleet.loop.now + Self.timeout) { [weak self] in self?.finish() }
    if open.isEmpty { finish() }
  }

  /// - Parameter reply: nil where none came.
  func replied(_ device: LoadDevice, _ reply: ServerReply?) {
    let user = fleet.roster.user(of: device.index)
    guard open.remove(user) != nil else { return }
    switch reply {
    case .rules: ready.append(user)
    case .error(let error): fleet.count("rules refused: \(error.code.name)")
    default: fleet.count("rules: no reply")
    }
    if open.isEmpty { finish() }
  }

  private func finish() {
    ready.sort()
    for _ in open { fleet.count("rules: no reply") }
    open = []
    completion.take()?()
  }
}
