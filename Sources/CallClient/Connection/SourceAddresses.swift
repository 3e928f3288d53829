package import NIOCore

/// Addresses of the loopback network that connections leave from, in turn. To a server on this
/// machine one process then looks like clients at many addresses, so that limits for each address
/// apply as they would on the internet. Linux lets a client bind any address of 127.0.0.0/8.
package struct SourceAddresses: Sendable {
  private let second: UInt8
  private let count: Int
  private var taken = 0

  /// The addresses 127.`second`.0.1, 127.`second`.0.2 and so on.
  /// - Parameter count: 1 to 64,000.
  package init(second: UInt8, count: Int) {
    self.second = second
    self.count = min(max(1, count), 64_000)
  }

  /// Returns the next address, with any free port; nil where the server's host is no address of
  /// 127.0.0.0/8.
  package mutating func take(for host: String) -> SocketAddress? {
    guard host.hasPrefix("127.") else { return nil }
    let number = taken % count
    taken += 1
    return try? SocketAddress(
      ipAddress: "127.\(second).\(number / 250).\(number % 250 + 1)", port: 0)
  }
}
