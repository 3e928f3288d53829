import CallLoadKit
import Glibc
import NIOCore

/// Where the page and the edges listen, and by which names browsers reach them.
package struct Reach: Sendable, Equatable {
  /// The address of the interface to listen on; `0.0.0.0`: all.
  package var address: String
  /// As in the addresses of pages. The first one is shown.
  package var hosts: [String]
  package var hasTLS: Bool

  /// This machine only. Browsers treat it as secure without TLS.
  package static let loopback = Reach(
    address: "127.0.0.1", hosts: ["localhost", "127.0.0.1"], hasTLS: false)

  package init(address: String, hosts: [String], hasTLS: Bool) {
    (self.address, self.hosts, self.hasTLS) = (address, hosts, hasTLS)
  }

  /// Other machines, with TLS.
  /// - Parameter address: an IPv4 address of this machine; nil: all of them.
  /// - Throws: ``SetupError`` if this machine has no such address.
  package static func withTLS(at address: String?) throws -> Reach {
    let devices = (try? System.enumerateDevices()) ?? []
    var own = devices.compactMap { device -> String? in
      guard case .v4 = device.address else { return nil }
      return device.address?.ipAddress
    }
    own = own.filter { !$0.hasPrefix("127.") } + ["127.0.0.1"]
    if let address {
      guard own.contains(address) else {
        throw SetupError("--host \(address): this machine has \(own.joined(separator: ", "))")
      }
      let isLoopback = address == "127.0.0.1"
      return Reach(
        address: address, hosts: [address] + (isLoopback ? ["localhost"] : []), hasTLS: true)
    }
    return Reach(address: "0.0.0.0", hosts: own + machineName() + ["localhost"], hasTLS: true)
  }

  private static func machineName() -> [String] {
    var buffer = [CChar](repeating: 0, count: 256)
    guard gethostname(&buffer, buffer.count - 1) == 0 else { return [] }
    let name = String(
      decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    let isName =
      !name.isEmpty
      && name.utf8.allSatisfy { character in
        switch character {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
          UInt8(ascii: "-"), UInt8(ascii: "."):
          true
        default: false
        }
      }
    return isName && name != "localhost" ? [name] : []
  }

  // MARK: Derived values

  package func page(_ host: String, port: Int) -> String { "\(site(host)):\(port)" }

  /// The address of a page without its port.
  func site(_ host: String) -> String { "\(hasTLS ? "https" : "http")://\(host)" }

  /// The host that a browser has asked for, without the port; nil: it is none of these.
  func host(of header: String?) -> String? {
    guard let header else { return nil }
    var name = header[...]
    if let colon = header.lastIndex(of: ":"), !header.hasSuffix("]") { name = header[..<colon] }
    let host = name.lowercased()
    return hosts.contains(host) || (!hasTLS && host == "[::1]") ? host : nil
  }

  /// The address of an edge as a page from `host` reaches it.
  func edge(_ url: String, from host: String) -> String {
    guard hasTLS, let colon = url.lastIndex(of: ":") else { return url }
    return "wss://\(host)\(url[colon...])"
  }

  /// The sources that pages may connect to besides their own, for their security policy.
  package var edgeSources: String {
    hasTLS ? hosts.map { "wss://\($0):*" }.joined(separator: " ") : "ws://127.0.0.1:*"
  }

  /// The names and the addresses among the hosts.
  package var certified: (names: [String], addresses: [String]) {
    let isAddress = { (host: String) in host.utf8.allSatisfy { (46...57).contains($0) && $0 != 47 }
    }
    return (hosts.filter { !isAddress($0) }, hosts.filter(isAddress))
  }
}
