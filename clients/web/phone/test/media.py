"""What a phone's call receives and plays."""

from waiting import until


class Media:
    """A part of `Phone`."""

    def flow(self):
        """What the present connection has received: packets of sound, their energy, and frames of video."""
        return self.driver.execute_async_script(
            """
            const done = arguments[0];
            const id = document.querySelector('.card.call')?.dataset.call;
            const connection = globalThis.callmeshPhone?.line(id)?.media?.connection;
            if (!connection) return done(null);
            connection.getStats().then((stats) => {
              const sum = { audio: 0, frames: 0, energy: 0 };
              for (const entry of stats.values()) {
                if (entry.type !== 'inbound-rtp') continue;
                if (entry.kind === 'audio') {
                  sum.audio += entry.packetsReceived;
                  sum.energy += entry.totalAudioEnergy ?? 0;
                } else sum.frames += entry.framesDecoded ?? 0;
              }
              done(sum);
            });
            """
        )

    def grows(self, *names):
        """Waits until each of these grows, seen from now on."""
        before = until("a connection", self.flow)
        for name in names:
            until(
                lambda: f"{name} to grow at {self.name}; it was {before}",
                lambda: (now := self.flow()) and now[name] > before[name],
            )
        return self

    def plays(self, video=False):
        """Waits until the other side's sound is played, not only received; with `video` its picture, too."""
        script = (
            "const it = document.querySelector('.card.call video');"
            "const isPlaying = !it.paused && !it.muted && it.currentTime > 0 && it.srcObject.getAudioTracks().length === 1;"
            "return isPlaying && (!arguments[0] || it.videoWidth > 0 && !it.matches('.unseen'))"
        )
        until(lambda: f"sound at {self.name}", lambda: self.js(script, video))
        if video:
            before = until("a picture", self.picture)
            until(lambda: f"the picture at {self.name} to move", lambda: (now := self.picture()) and now != before)
        return self

    def picture(self):
        """The other side's picture as it is now, in few pixels; None: it shows one colour, or nothing."""
        return self.js(
            "const it = document.querySelector('.card.call video');"
            "const canvas = Object.assign(document.createElement('canvas'), { width: 64, height: 48 });"
            "const context = canvas.getContext('2d');"
            "context.drawImage(it, 0, 0, 64, 48);"
            "const pixels = [...context.getImageData(0, 0, 64, 48).data];"
            "return new Set(pixels).size > 4 ? pixels.join() : null"
        )

    def silent(self, packets=150):
        """Waits until so many packets of sound have come in a row without any energy."""

        def quiet():
            before = self.flow()
            until("sound packets", lambda: self.flow()["audio"] >= before["audio"] + packets)
            return self.flow()["energy"] - before["energy"] < 1e-4

        until(lambda: f"silence at {self.name}", quiet)
        return self
