/// The opening handshake of RFC 6455 as a client speaks it.
package struct WebSocketHandshake: Sendable {
  let key: String
  let subprotocol: String

  /// - Parameter nonce: 16 random bytes.
  package init(nonce: [UInt8], subprotocol: String) {
    self.key = base64(nonce)
    self.subprotocol = subprotocol
  }

  func request(_ edge: EdgeAddress) -> String {
    """
    GET \(edge.path) HTTP/1.1\r
    Host: \(edge.authority)\r
    Upgrade: websocket\r
    Connection: Upgrade\r
    Sec-WebSocket-Key: \(key)\r
    Sec-WebSocket-Version: 13\r
    Sec-WebSocket-Protocol: \(subprotocol)\r
    \r

    """
  }

  /// Checks the server's answer, without its final empty line. nil: the WebSocket is open; else why
  /// it is not.
  package func refusal(of response: String) -> String? {
    var lines = response.split(whereSeparator: \.isNewline)
    guard !lines.isEmpty else { return "no status line" }
    let status = lines.removeFirst()
    guard status.hasPrefix("HTTP/1.1 101") else { return String(status.prefix(60)) }
    var accept: Substring?
    var chosen: Substring?
    for line in lines {
      guard let colon = line.firstIndex(of: ":") else { continue }
      let value = line[line.index(after: colon)...].drop { $0 == " " }
      switch line[..<colon].lowercased() {
      case "sec-websocket-accept": accept = value
      case "sec-websocket-protocol": chosen = value
      default: break
      }
    }
    let expected = base64(sha1(Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8)))
    guard accept.map(String.init) == expected else { return "wrong Sec-WebSocket-Accept" }
    guard chosen.map(String.init) == subprotocol else { return "subprotocol not accepted" }
    return nil
  }
}

func base64(_ bytes: [UInt8]) -> String {
  let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
  var out: [UInt8] = []
  out.reserveCapacity((bytes.count + 2) / 3 * 4)
  var index = 0
  while index < bytes.count {
    let left = bytes.count - index
    let word =
      UInt32(bytes[index]) << 16 | UInt32(left > 1 ? bytes[index + 1] : 0) << 8
      | UInt32(left > 2 ? bytes[index + 2] : 0)
    out.append(alphabet[Int(word >> 18 & 63)])
    out.append(alphabet[Int(word >> 12 & 63)])
    out.append(left > 1 ? alphabet[Int(word >> 6 & 63)] : UInt8(ascii: "="))
    out.append(left > 2 ? alphabet[Int(word & 63)] : UInt8(ascii: "="))
    index += 3
  }
  return String(decoding: out, as: UTF8.self)
}

/// SHA-1, for the handshake's accept value only: there it proves that the other side speaks
/// WebSocket, nothing about secrecy.
func sha1(_ message: [UInt8]) -> [UInt8] {
  var state: [UInt32] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0]
  var data = message + [0x80]
  while data.count % 64 != 56 { data.append(0) }
  let bits = UInt64(message.count) * 8
  for shift in stride(from: UInt64(56), through: 0, by: -8) {
    data.append(UInt8(truncatingIfNeeded: bits >> shift))
  }
  var words = [UInt32](repeating: 0, count: 80)
  for block in stride(from: 0, to: data.count, by: 64) {
    for i in 0..<16 {
      let at = block + i * 4
      words[i] =
        UInt32(data[at]) << 24 | UInt32(data[at + 1]) << 16 | UInt32(data[at + 2]) << 8
        | UInt32(data[at + 3])
    }
    for i in 16..<80 {
      words[i] = rotated(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1)
    }
    mix(words, into: &state)
  }
  return state.flatMap { word in
    [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: word >> UInt32($0)) }
  }
}

private func mix(_ words: [UInt32], into state: inout [UInt32]) {
  var (a, b, c, d, e) = (state[0], state[1], state[2], state[3], state[4])
  for i in 0..<80 {
    let (f, k): (UInt32, UInt32) =
      switch i {
      case ..<20: (b & c | ~b & d, 0x5A82_7999)
      case ..<40: (b ^ c ^ d, 0x6ED9_EBA1)
      case ..<60: (b & c | b & d | c & d, 0x8F1B_BCDC)
      default: (b ^ c ^ d, 0xCA62_C1D6)
      }
    let next = rotated(a, 5) &+ f &+ e &+ k &+ words[i]
    (e, d, c, b, a) = (d, c, rotated(b, 30), a, next)
  }
  state[0] &+= a
  state[1] &+= b
  state[2] &+= c
  state[3] &+= d
  state[4] &+= e
}

private func rotated(_ word: UInt32, _ by: UInt32) -> UInt32 { word << by | word >> (32 - by) }
