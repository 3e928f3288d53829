internal import CallWire
internal import Crypto

/// The opening handshake of RFC 6455 as a client speaks it.
package struct WebSocketHandshake: Sendable {
  let key: String
  let subprotocol: String

  /// - Parameter nonce: 16 random bytes.
  package init(nonce: [UInt8], subprotocol: String) {
    self.key = Base64.text(nonce)
    self.subprotocol = subprotocol
  }

  package func request(_ edge: EdgeAddress) -> String {
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

  /// Checks the server's response, without its final empty line.
  /// - Returns: why the handshake failed; nil: the WebSocket is open.
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
    let proof = Insecure.SHA1.hash(data: Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8))
    let expected = Base64.text(Array(proof))
    guard accept.map(String.init) == expected else { return "wrong Sec-WebSocket-Accept" }
    guard chosen.map(String.init) == subprotocol else { return "subprotocol not accepted" }
    return nil
  }
}
