import CallCore
import CallPush
import Testing

@Suite struct TokenWaveTests {
  private let start = Timestamp(microseconds: 1_800_000_000_000_000)

  private func wave(_ answers: [(String, Bool)]) -> TokenWave {
    var wave = TokenWave()
    for (token, isRefused) in answers { wave.note(token, isRefused: isRefused, now: start) }
    return wave
  }

  private func refused(_ count: Int) -> [(String, Bool)] { (0..<count).map { ("bad\($0)", true) } }
  private func accepted(_ count: Int) -> [(String, Bool)] {
    (0..<count).map { ("good\($0)", false) }
  }

  @Test func aWaveIsFiveTokensAndMoreThanHalf() {
    #expect(!wave(refused(4)).isOn)
    #expect(wave(refused(5)).isOn)
    #expect(wave(accepted(4) + refused(5)).isOn)
    #expect(!wave(accepted(5) + refused(5)).isOn)
    #expect(wave(accepted(100) + refused(11)).isOn, "the latest twenty count")
    #expect(!wave(accepted(100) + refused(10)).isOn)
  }

  @Test func oneTokenCountsOnce() {
    #expect(!wave(Array(repeating: ("bad", true), count: 50)).isOn)
    let recovered = refused(5) + [("bad0", false)]
    #expect(!wave(recovered).isOn)
    #expect(wave(recovered).refused == 4)
  }

  @Test func anHourLaterItIsForgotten() {
    var wave = wave(refused(9))
    wave.note("next", isRefused: true, now: start + .seconds(3599))
    #expect(wave.isOn)
    wave.note("next", isRefused: true, now: start + .seconds(3600))
    #expect(!wave.isOn)
    #expect(wave.refused == 1)
  }
}
