import CallCore

/// The users of one process among those of a run. Calls stay within a part, so that one judge sees each whole.
package struct LoadPart: Codable, Sendable, Equatable {
  /// From 0.
  package var number: Int
  /// The number of all parts of the run.
  package var count: Int
  package var firstUser: Int
  package var devices: Int

  /// All users in one process.
  static let whole = LoadPart(number: 0, count: 1, firstUser: 0, devices: 0)

  /// The parts of a load, of whole users and as equal as possible. Each has two users or more where `count`
  /// is at most half of the users.
  package static func split(devices: Int, devicesPerUser: Int, count: Int) -> [LoadPart] {
    let roster = Roster(devices: devices, devicesPerUser: devicesPerUser)
    return (0..<count).map { number in
      let users = share(number, of: roster.users, count: count)
      let last = min(users.upperBound * devicesPerUser, devices)
      return LoadPart(
        number: number, count: count, firstUser: users.lowerBound,
        devices: last - users.lowerBound * devicesPerUser)
    }
  }

  /// The calls of this part.
  package func share(of calls: Int) -> Int { Self.share(number, of: calls, count: count).count }

  /// The interval at which this part does what all parts together do in `interval`.
  func share(of interval: Span) -> Span {
    Span(microseconds: interval.microseconds * Int64(count))
  }

  func share(of rate: Double) -> Double { rate / Double(count) }

  private static func share(_ number: Int, of total: Int, count: Int) -> Range<Int> {
    (total * number / count)..<(total * (number + 1) / count)
  }
}
