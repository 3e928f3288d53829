import CallCore
import CallJudge

/// In which calls each user has a part, and when the user last had a side of an answered one.
struct TalkIndex: Sendable {
  private var calls: [Int: [CallID]] = [:]
  private var lastTalks: [Int: Timestamp] = [:]

  mutating func add(_ call: CallID, of user: Int) { calls[user, default: []].append(call) }

  mutating func remove(_ call: CallID, of user: Int) {
    calls[user]?.removeAll { $0 == call }
    if calls[user]?.isEmpty == true { calls[user] = nil }
  }

  /// The last call of a user that may have been answered is over, as far as devices know.
  mutating func talked(_ user: Int, at now: Timestamp) { lastTalks[user] = now }

  /// Calls that are not judged yet.
  func calls(of user: Int) -> [CallID] { calls[user] ?? [] }

  func lastTalk(of user: Int) -> Timestamp? { lastTalks[user] }
}

/// Whether a user is in an answered call, as far as that is known.
struct UserTalk: Sendable {
  /// Calls to the user that go on.
  var received: [CallID] = []
  /// The user may be in a call of which that is not known, or may count as in one.
  var isPossible = false
}

extension CallRecord {
  /// Whether a device may have answered, whatever others know.
  var mayBeAnswered: Bool {
    answeredBy != nil || facts.crosses != nil
      || callees.contains { $0.wonAt != nil || $0.acts.contains(.answer) }
  }

  /// Whether the call was answered by then, and no device had sent or received what ends or moves it.
  func goesOn(at time: Timestamp) -> Bool {
    guard let answered = answeredToldAt, answered <= time, facts.crosses == nil,
      transfer?.asked.map({ time < $0.at }) ?? true
    else { return false }
    return everybody.allSatisfy { device in
      let end = device.end.flatMap { end in
        end.reason.followsAnswer || end.reason == .moved ? end.at : nil
      }
      let ends = [device.time(of: .hangUp), device.time(of: .cancel), device.pulledAt, end]
      return device.keptConnection && ends.compactMap(\.self).allSatisfy { time < $0 }
    }
  }
}
