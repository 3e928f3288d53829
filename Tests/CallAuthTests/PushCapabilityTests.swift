import CallAuth
import Crypto
import Foundation
import Testing

private let first = [UInt8](1...32)
private let second = [UInt8](101...140)

private func keys(_ keys: [UInt8]...) -> PushCapabilityKeys { try! PushCapabilityKeys(keys) }

private func capability(
  app: String = "demo", user: String = "ben", device: String = "phone-1",
  call: [UInt8] = [UInt8](0..<16), expires: Int64 = now + 60
) -> PushCapability {
  PushCapability(app: app, user: user, device: device, call: call, expires: expires)
}

@Suite struct PushCapabilityTests {
  private func refuses(
    _ keys: PushCapabilityKeys, _ text: String, sourceLocation: SourceLocation = #_sourceLocation
  ) {
    #expect(throws: AuthFailure.notAccepted, sourceLocation: sourceLocation) {
      try keys.verify(text, now: now)
    }
  }

  @Test func whatIsMintedIsVerified() throws {
    let text = keys(first).mint(capability())
    #expect(try keys(first).verify(text, now: now) == capability())
    // Small enough to travel in a push, and safe in a header, a path and a query.
    #expect(text.utf8.count == 138)
    #expect(
      text.utf8.allSatisfy {
        "-_".utf8.contains($0) || Character(.init($0)).isLetter
          || Character(.init($0)).isNumber
      })
  }

  /// The layout is the wire's: a push of one version is answered by an edge of another.
  @Test func theTextIsWhatItWasInTheSecondVersion() throws {
    let text = "AgBrSdI8AAECAwQFBgcICQoLDA0ODwRkZW1vA2Jlbgdwa" + "G9uZS0x"
    #expect(base64URL(decoded(base64URL: keys(first).mint(capability())).dropLast(64)) == text)
  }

  /// A push of the version before, made as that one made it.
  private func formerText(_ key: [UInt8]) -> String {
    let payload = decoded(base64URL: "AQBrSdI8AAECAwQFBgcICQoLDA0ODwRkZW1vA2Jlbgdwa" + "G9uZS0x")
    let code = HMAC<SHA256>.authenticationCode(
      for: Data("callmesh push capability\0".utf8) + payload, using: SymmetricKey(data: key))
    return base64URL(payload + Array(code).prefix(16))
  }

  @Test func whatGatewaysOfTheFormerVersionSignedIsTaken() throws {
    #expect(try keys(second, first).verify(formerText(first), now: now) == capability())
    refuses(keys(second), formerText(first))
  }

  /// Edges have the public halves: they verify, and can sign nothing.
  @Test func whoVerifiesCannotSign() throws {
    let text = keys(first).mint(capability())
    let edge = try PushCapabilityKeys(publicKeys: keys(second, first).publicKeys)
    #expect(try edge.verify(text, now: now) == capability())
    #expect(edge.mint(capability()) == "")
    // Nor is a code made with what everybody may read.
    for key in edge.publicKeys {
      refuses(edge, formerText(key))
    }
    refuses(edge, formerText(first))
    let beside = try PushCapabilityKeys(publicKeys: edge.publicKeys, former: [first])
    #expect(try beside.verify(formerText(first), now: now) == capability())
    #expect(throws: PushCapabilityKeysError.self) { try PushCapabilityKeys(publicKeys: []) }
    #expect(throws: PushCapabilityKeysError.self) { try PushCapabilityKeys(publicKeys: [[1]]) }
  }

  @Test func theLongestNamesPass() throws {
    let longest = capability(
      app: String(repeating: "a", count: 64), user: String(repeating: "é", count: 64),
      device: String(repeating: "d", count: 64))
    let text = keys(first).mint(longest)
    #expect(text.utf8.count <= PushCapability.textBytesMaximum)
    #expect(try keys(first).verify(text, now: now) == longest)
    #expect(PushCapability.textBytesMaximum - text.utf8.count < 4)
  }

  @Test(arguments: [
    capability(app: ""), capability(user: ""), capability(device: ""),
    capability(app: "a b"), capability(user: "a\nb"), capability(device: "\u{7f}"),
    capability(app: String(repeating: "a", count: 65)),
    capability(user: String(repeating: "u", count: 129)),
    capability(device: String(repeating: "d", count: 65)),
  ])
  func namesThatNobodyCanHaveAreRefused(_ odd: PushCapability) {
    let text = keys(first).mint(odd)
    refuses(keys(first), text)
  }

  @Test func oddValuesAreSignedWithoutATrap() throws {
    let endless = keys(first).mint(capability(user: String(repeating: "u", count: 100_000)))
    refuses(keys(first), endless)
    let odd: [(PushCapability, PushCapability)] = [
      (capability(call: []), capability(call: [UInt8](repeating: 0, count: 16))),
      (capability(call: [UInt8](0..<40)), capability()),
      (capability(expires: .max), capability(expires: 1 << 40 - 1)),
    ]
    for (given, kept) in odd {
      #expect(try keys(first).verify(keys(first).mint(given), now: now) == kept)
    }
    let past = keys(first).mint(capability(expires: .min))
    #expect(throws: AuthFailure.expired) { try keys(first).verify(past, now: now) }
  }

  @Test(arguments: [(now + 59, true), (now + 60, false), (now + 61, false), (0, true)])
  func itExpiresToTheSecond(at moment: Int64, good: Bool) throws {
    let text = keys(first).mint(capability())
    if good {
      #expect(try keys(first).verify(text, now: moment) == capability())
    } else {
      #expect(throws: AuthFailure.expired) { try keys(first).verify(text, now: moment) }
    }
  }

  /// No bit of it may be another: not of the payload, and not of the code.
  @Test func everyBitCounts() throws {
    let good = decoded(base64URL: keys(first).mint(capability()))
    for index in good.indices {
      for bit in 0..<8 {
        var bad = good
        bad[index] ^= 1 << bit
        refuses(keys(first), base64URL(bad))
      }
    }
  }

  @Test func everyByteLessAndMoreIsRefused() {
    let good = decoded(base64URL: keys(first).mint(capability()))
    for count in 0..<good.count {
      for bad in [good.prefix(count), good.suffix(count)] {
        refuses(keys(first), base64URL(bad))
      }
    }
    for extra in [UInt8(0), 1, 255] {
      refuses(keys(first), base64URL(good + [extra]))
    }
  }

  /// One capability has one text: what is counted or remembered by its text cannot be doubled.
  @Test func otherSpellingsAreRefused() {
    let text = keys(first).mint(capability(device: "phone-12"))
    #expect(text.utf8.count % 4 != 0)
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    // The last two of the last character's bits belong to no byte.
    let strayBit = text.dropLast() + [alphabet[alphabet.firstIndex(of: text.last!)! + 1]]
    for bad in [
      text + "=", text + "==", text + "\n", " " + text, text + " ", text + "\0",
      text.replacing("A", with: "A\n", maxReplacements: 1), String(strayBit), "",
      "====", "é", String(repeating: "A", count: PushCapability.textBytesMaximum + 4),
      String(repeating: "A", count: 1_000_000),
    ] {
      refuses(keys(first), bad)
    }
    // The letters of plain base64 stand for the same bits, and are none of ours.
    var plain = ""
    var url = ""
    for number in 0..<200 where !(url.contains("-") || url.contains("_")) {
      url = keys(first).mint(capability(device: "\(number)"))
      plain = url.replacing("-", with: "+").replacing("_", with: "/")
    }
    #expect(plain != url)
    refuses(keys(first), plain)
  }

  @Test func theFirstKeySignsAndAllVerify() throws {
    let old = keys(first).mint(capability())
    let both = keys(second, first)
    #expect(try both.verify(old, now: now) == capability())
    let new = both.mint(capability())
    #expect(new != old)
    #expect(try keys(second).verify(new, now: now) == capability())
    refuses(keys(first), new)
    refuses(keys(second), old)
  }

  @Test(
    arguments: [
      [], [first, [1, 2, 3]], [[UInt8](repeating: 7, count: 31)],
      [[UInt8]](repeating: first, count: 9), [first, Array("top secret".utf8)],
    ] as [[[UInt8]]]) func keysHaveToBeLongEnoughAndFew(bad: [[UInt8]])
  {
    let error = #expect(throws: PushCapabilityKeysError.self) { try PushCapabilityKeys(bad) }
    let text = "\(String(describing: error))"
    #expect(!text.contains("secret"))
    if bad.last?.count == 10 { #expect(text.contains("key 2") && text.contains("10 bytes")) }
  }

  @Test func keysThatAreLongAndFewEnough() throws {
    _ = try PushCapabilityKeys([[UInt8](repeating: 7, count: 32)])
    _ = try PushCapabilityKeys([[UInt8]](repeating: first, count: 8))
  }

  @Test func aKeyringIsEmptyUntilItIsFilled() {
    let ring = PushKeyring()
    #expect(ring.current == nil)
    ring.replace(with: keys(first))
    let text = ring.current?.mint(capability()) ?? ""
    ring.replace(with: keys(second, first))
    #expect((try? ring.current?.verify(text, now: now)) == capability())
    ring.replace(with: nil)
    #expect(ring.current == nil)
  }

  @Test func nothingPrintsAKey() {
    let key = Array("0123456789abcdefghijklmnopqrstuv".utf8)
    let ring = PushKeyring(keys(key))
    var dumped = ""
    dump(ring, to: &dumped)
    dump(ring.current, to: &dumped)
    for text in [
      "\(ring)", String(reflecting: ring), "\(ring.current!)", String(reflecting: ring.current!),
      dumped,
    ] {
      #expect(!text.contains("SymmetricKey"))
      #expect(!text.contains("48, 49, 50"))
      #expect(!text.contains("0123456789"))
    }
  }
}

@Suite struct PushTokenFingerprintTests {
  /// By `printf 'apns\0abcd' | sha256sum | cut -c1-32`.
  @Test func itIsHalfOfTheHash() {
    #expect(
      PushTokenFingerprint.of(provider: "apns", token: "abcd")
        == "f3c0f4ab67078f20548b3bb640a779e8")
    #expect(PushTokenFingerprint.of(provider: "", token: "") == "6e340b9cffb37a989ca544e6bb780a2c")
  }

  @Test func providerAndTokenAreApart() {
    let all = [
      ("apns", "ab"), ("apn", "sab"), ("fcm", "ab"), ("apns", "AB"), ("apns", ""), ("", "apnsab"),
    ].map { PushTokenFingerprint.of(provider: $0.0, token: $0.1) }
    #expect(Set(all).count == all.count)
    for text in all {
      #expect(text.utf8.count == 32)
      #expect(text.allSatisfy { $0.isHexDigit && !$0.isUppercase })
    }
  }
}
