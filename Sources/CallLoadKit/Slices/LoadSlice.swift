import ArgumentParser
import CallCore

/// The share of one callload among several that load one cluster at the same time. Calls stay within a slice, so
/// that one judge sees each of them whole.
package struct LoadSlice: Sendable, Equatable, CustomStringConvertible {
  /// From 1.
  package var number = 1
  package var count = 1

  package static let countMax = 64

  package init() {}

  /// Reads "2/3".
  /// - Throws: `ValidationError` for any other text.
  package static func parse(_ text: String) throws -> LoadSlice {
    let numbers = text.split(separator: "/", omittingEmptySubsequences: false).map { Int($0) }
    guard numbers.count == 2, let number = numbers[0], let count = numbers[1],
      (1...countMax).contains(count), (1...count).contains(number)
    else {
      throw ValidationError("\"\(text)\" is no slice; write the second of three as 2/3")
    }
    var slice = LoadSlice()
    (slice.number, slice.count) = (number, count)
    return slice
  }

  package var description: String { "\(number)/\(count)" }

  /// Whole users; slices are as equal as possible.
  package func roster(of whole: Roster) -> Roster {
    let users = range(of: whole.users)
    let first = users.lowerBound * whole.devicesPerUser
    return Roster(
      devices: min(users.upperBound * whole.devicesPerUser, whole.devices) - first,
      devicesPerUser: whole.devicesPerUser, firstUser: users.lowerBound)
  }

  package func share(of calls: Int) -> Int { range(of: calls).count }

  /// The interval at which this slice does what all slices together do in `interval`.
  func share(of interval: Span) -> Span {
    Span(microseconds: interval.microseconds * Int64(count))
  }

  private func range(of total: Int) -> Range<Int> {
    (total * (number - 1) / count)..<(total * number / count)
  }
}
