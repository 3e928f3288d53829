import CallClient
import NIOCore

/// The bytes that raw attackers send, and what they look for in answers.
package enum AttackBytes {
  package enum Opcode: UInt8 {
    case text = 0x1
    case binary = 0x2
    case ping = 0x9
  }

  /// A client's WebSocket frame, masked with zeros. The header states the length `declared`, if given.
  package static func frame(
    _ opcode: Opcode, _ payload: some Collection<UInt8>, declared: Int? = nil
  ) -> [UInt8] {
    let length = declared ?? payload.count
    var bytes: [UInt8] = [0x80 | opcode.rawValue]
    switch length {
    case ..<126: bytes.append(0x80 | UInt8(length))
    case ..<65_536: bytes += [0x80 | 126, UInt8(length >> 8), UInt8(length & 0xFF)]
    default:
      bytes.append(0x80 | 127)
      for shift in stride(from: 56, through: 0, by: -8) {
        bytes.append(UInt8(truncatingIfNeeded: length >> shift))
      }
    }
    bytes += [0, 0, 0, 0]
    bytes.append(contentsOf: payload)
    return bytes
  }

  static func get(_ path: String, _ edge: EdgeAddress, token: String? = nil) -> String {
    "GET \(path) HTTP/1.1\r\nHost: \(edge.host):\(edge.port)\r\n"
      + (token.map { "Authorization: Bearer \($0)\r\n" } ?? "") + "\r\n"
  }

  private static let version = Array("HTTP/1.1 ".utf8)

  /// The status codes of the responses that begin in these bytes.
  static func statuses(_ bytes: ByteBuffer) -> [String] {
    let view = bytes.readableBytesView
    var found: [String] = []
    var at = view.startIndex
    while at + 12 <= view.endIndex {
      guard view[at] == version[0], view[at..<(at + 9)].elementsEqual(version) else {
        at += 1
        continue
      }
      found.append(String(decoding: view[(at + 9)..<(at + 12)], as: UTF8.self))
      at += 12
    }
    return found
  }

  static func isUpgraded(_ bytes: ByteBuffer) -> Bool { statuses(bytes).first == "101" }
}
