import CallBus
import Glibc
import Synchronization
import Testing

/// A way to a nats-server that breaks, or falls silent, in the middle of what the server says.
final class CutRelay: Sendable {
  private struct Plan {
    var marker: [UInt8]
    var isSilent: Bool
  }
  private let listener: Int32
  private let target: Int
  /// The faults that befall the connections, one after the other.
  private let plans = Mutex<[Plan]>([])
  private let sockets = Mutex<[Int32]>([])
  let port: UInt16
  var url: String { "nats://127.0.0.1:\(port)" }

  init(to target: Int) throws {
    self.target = target
    (listener, port) = try listenOnLoopback()
    startThread(named: "cut-relay") { [self] in
      while case let near = accept(listener, nil, nil), near >= 0 { relay(near) }
    }
  }

  /// Once the server says this, nothing that follows passes, and the connection is closed. Once.
  func cut(behind marker: String) { plan(marker, isSilent: false) }

  /// Once the server says this, nothing that follows passes, and the connection stays. Once, and after what
  /// was asked for before.
  func silence(behind marker: String) { plan(marker, isSilent: true) }

  /// Whether all that was asked for has happened.
  var isDone: Bool { plans.withLock { $0.isEmpty } }

  private func plan(_ marker: String, isSilent: Bool) {
    plans.withLock { $0.append(Plan(marker: Array(marker.utf8), isSilent: isSilent)) }
  }

  deinit { for socket in sockets.withLock({ $0 }) + [listener] { close(socket) } }

  func stop() {
    shutdown(listener, Int32(SHUT_RDWR))
    for socket in sockets.withLock({ $0 }) { shutdown(socket, Int32(SHUT_RDWR)) }
  }

  private func relay(_ near: Int32) {
    let far = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var name = loopback(port: UInt16(target))
    let isThere = withUnsafeMutablePointer(to: &name) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(far, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
      }
    }
    sockets.withLock { $0 += [near, far] }
    guard isThere else { return end(near, far) }
    startThread(named: "cut-relay") { [self] in pass(near, far) { ($0, nil) } }
    startThread(named: "cut-relay") { [self] in pass(far, near, upToMarker) }
  }

  /// Passes bytes on, to the end or to where `passing` says that no more do.
  private func pass(
    _ from: Int32, _ to: Int32, _ passing: (ArraySlice<UInt8>) -> (ArraySlice<UInt8>, Plan?)
  ) {
    var buffer = [UInt8](repeating: 0, count: 64 << 10)
    while case let count = recv(from, &buffer, buffer.count, 0), count > 0 {
      let (part, plan) = passing(buffer[..<count])
      let sent = part.withUnsafeBytes {
        send(to, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      if plan?.isSilent == true { while recv(from, &buffer, buffer.count, 0) > 0 {} }
      if plan != nil || sent < part.count { break }
    }
    end(from, to)
  }

  private func upToMarker(_ bytes: ArraySlice<UInt8>) -> (ArraySlice<UInt8>, Plan?) {
    plans.withLock { plans in
      guard let next = plans.first, let found = bytes.firstRange(of: next.marker) else {
        return (bytes, nil)
      }
      plans.removeFirst()
      return (bytes[..<found.upperBound], next)
    }
  }

  private func end(_ near: Int32, _ far: Int32) {
    shutdown(near, Int32(SHUT_RDWR))
    shutdown(far, Int32(SHUT_RDWR))
  }
}
